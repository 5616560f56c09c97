"""Show the figures of a pool: as rows for a dataframe, as one line, or as a notebook's table."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fair_allocator.core.figures import Figures

SHOWN = 50
"""How many arms a notebook shows. More would make the page too long."""


def rows(pool: "Figures") -> list[dict[str, object]]:
    """Return one row for each arm, in order, ready for ``pandas.DataFrame`` or ``csv.DictWriter``.

    `quota`, `entitled`, `share` and `mean` are floats for reading and plotting; `shortfall` is
    exact. `share` is the arm's pulls divided by the rounds since it joined, None before its first
    round. `mean` is None before its first reward.
    """
    arms, played, clock = pool.columns, pool.rounds, pool.clock
    found: list[dict[str, object]] = []
    for arm, name in enumerate(arms.names):
        rounds = played - arms.joined[arm] + 1
        found.append(
            {
                "arm": name,
                "quota": float(arms.quota(arm)),
                "entitled": float(arms.entitled(arm, clock)),
                "pulls": arms.pulls[arm],
                "forced": arms.forced[arm],
                "share": arms.pulls[arm] / rounds if rounds > 0 else None,
                "shortfall": arms.shortfall(arm, clock),
                "gap": arms.own(arm, clock) - arms.last[arm],
                "open": arms.pending[arm],
                "observed": arms.observed[arm],
                "mean": arms.mean(arm),
            }
        )
    return found


def describe(pool: "Figures") -> str:
    """Return one line on a pool: its number of arms and rounds, its promise and its learner."""
    guarantee, learner = pool.guarantee, pool.learner
    kind = type(pool).__name__
    title = f"{kind} {pool.name!r}" if pool.name else kind
    promise = "no guarantee" if guarantee.bound is None else f"bound {guarantee.bound:,}"
    named = getattr(learner, "name", "") or type(learner).__name__
    counts = f"{_count(pool.size, 'arm')}, {_count(pool.rounds, 'round')}"
    return f"<{title}: {counts}, {guarantee.rule}, {promise}, learner {named}>"


def html(pool: "Figures") -> str:
    """Return HTML on a pool for a notebook: one line, and a table of the first arms."""
    table = rows(pool)
    titles = "".join(f"<th>{title}</th>" for title in table[0])
    body = ("".join(f"<td>{_cell(value)}</td>" for value in row.values()) for row in table[:SHOWN])
    lines = "\n".join(f"<tr>{cells}</tr>" for cells in (titles, *body))
    rest = f"<p>and {_count(len(table) - SHOWN, 'more arm')}</p>" if len(table) > SHOWN else ""
    return f"<p>{escape(describe(pool))}</p>\n<table>\n{lines}\n</table>\n{rest}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
