"""Write the lines of some pools in `/metrics`: a *block* of pools has one text for each metric.

Thousands of pools change between two scrapes, and the time to write them is taken from the
service's loop. So everything that stays the same during an epoch of a pool is written once, into
templates. A scrape only fills in the numbers, for many pools at a time. A block without changes is
not written again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.metrics import POOL_METRICS, PREFIX
from fair_allocator.observe.selection import Selection
from fair_allocator.observe.view import Key

POOLS: Final = 64
"""How many pools a block has: many, to share work, but so few that a change rewrites little."""


def label_value(name: str) -> str:
    """Escape a name for a label; replace characters that UTF-8 cannot encode."""
    text = name.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pool_labels(key: Key, by_partition: bool) -> str:
    """Return the labels that identify a pool."""
    partition, name = key
    return f'pool="{label_value(name)}"' + (f',partition="{partition}"' if by_partition else "")


_Current = tuple[PoolFigures, list[int]]
"""The figures of a pool, and which of its arms have series."""


class Member:
    """A pool of a block: its labels, its figures, and which of its arms have series."""

    __slots__ = ("arms", "figures", "labels", "selection")

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.figures: PoolFigures | None = None
        self.selection: Selection[int] = Selection(0)
        self.arms: list[int] = []

    def update(self, figures: PoolFigures, limit: int) -> tuple[bool, bool]:
        """Use new figures of the pool, with series for at most `limit` arms.

        Return whether the pool's numbers changed, and whether its lines must be written anew (for
        example, because other arms have series now).
        """
        before, selection = self.figures, self.selection
        same = before is not None and before.of.terms is figures.of.terms
        if selection.limit != limit:
            selection.limit, same = limit, False
        elif before is figures:
            return False, False
        self.figures = figures
        if same and not figures.broken:
            return True, False  # keep the choice of arms until an urgent arm needs a place
        if before is None or before.of.terms.names is not figures.of.terms.names:
            selection.chosen.clear()  # the chosen indices may stand for other arms now
        arms = self._select(figures)
        same = same and arms == self.arms
        self.arms = arms
        return True, not same

    def _select(self, figures: PoolFigures) -> list[int]:
        of, bound = figures.of, figures.of.terms.bound
        urgent: list[int] = []
        if figures.broken and bound is not None:
            urgent = np.flatnonzero(figures.short > bound).tolist()
        pulls = of.pulls
        return self.selection.update(
            range(figures.size),
            urgent,
            lambda: sorted(range(figures.size), key=pulls.__getitem__, reverse=True),
        )


class Block:
    """At most `POOLS` pools. `texts` has a text for each metric: those of pools, then of arms."""

    def __init__(self) -> None:
        self.members: dict[Key, Member] = {}
        self.texts: Sequence[str] = ()
        self._templates: Sequence[str] = ()
        self._mean_lines: Sequence[str] = ()
        self._waiting_lines: Sequence[str] = ()

    def add(self, key: Key, labels: str) -> None:
        """Add a pool."""
        self.members[key] = Member(labels)
        self._templates = ()

    def remove(self, key: Key) -> None:
        """Remove a pool."""
        del self.members[key]
        self._templates = ()

    def write(self, figures: Mapping[Key, PoolFigures], limits: Mapping[Key, int]) -> None:
        """Update the lines. `limits` says how many arms of each pool have series."""
        changed = not self._templates
        for key, member in self.members.items():
            numbers, lines = member.update(figures[key], limits[key])
            changed = changed or numbers
            if lines:
                self._templates = ()
        if not changed:
            return
        current = [(figures[key], member.arms) for key, member in self.members.items()]
        if not self._templates:
            labels = (member.labels for member in self.members.values())
            self._write_templates([_Lines(*each) for each in zip(labels, current, strict=True)])
        columns = _pool_columns([each for each, _ in current]) + _arm_columns(current)
        texts = [t % tuple(c) for t, c in zip(self._templates, columns, strict=True)]
        oldest = [each.of.waiting_since for each, _ in current]
        since = [None if each is None else each / 1000 for each in oldest]
        texts.insert(len(POOL_METRICS) - 1, _known(self._waiting_lines, since))
        means = [each.mean(arm) for each, arms in current for arm in arms]
        texts.append(_known(self._mean_lines, means))
        self.texts = texts

    def _write_templates(self, lines: Sequence["_Lines"]) -> None:
        self._mean_lines = [line for each in lines for line in each.means]
        self._waiting_lines = [each.waiting for each in lines]
        pools = zip(*(each.of_pool for each in lines), strict=True)
        arms = zip(*(each.of_arms for each in lines), strict=True)
        self._templates = ["".join(column) for column in (*pools, *arms)]


def _known(lines: Sequence[str], values: Sequence[float | None]) -> str:
    """Return the lines whose value is not None."""
    found = zip(lines, values, strict=True)
    return "".join([f"{line}{value!r}\n" for line, value in found if value is not None])


class _Lines:
    """The lines of a pool with placeholders for its numbers.

    A number that stays the same during an epoch is part of the text, without a placeholder. Some
    lines are left out at times, because nothing waits or there was no reward. Of such a line, only
    the text before the number is kept.
    """

    def __init__(self, raw_labels: str, current: "_Current") -> None:
        figures, arms = current
        terms, labels = figures.of.terms, raw_labels.replace("%", "%%")
        at = f"{{{labels}}} "
        bound = "" if terms.bound is None else f"{PREFIX}fairness_tolerance{at}{terms.bound}\n"
        most = figures.gap_bound
        gap_bound = "" if most is None else f"{PREFIX}longest_gap_bound_slots{at}{most}\n"
        any_kind = terms.requests == "any"
        self.of_pool = [
            f"{PREFIX}fairness_violation_max{at}%d\n",
            f"{PREFIX}fairness_violation_peak{at}%d\n",
            f"{PREFIX}violated_epochs_total{at}%d\n",
            bound,
            f"{PREFIX}arms_in_violation{at}%d\n",
            f'{PREFIX}guarantee_info{{{labels},rule="{terms.rule}"}} 1\n',
            _by_reason("pool_assignments_total", labels),
            f"{PREFIX}pool_rewards_total{at}%d\n",
            f"{PREFIX}pool_reward_sum_total{at}%r\n",
            f"{PREFIX}regret_estimate{at}%.9g\n",
            f"{PREFIX}r_regret_estimate{at}%.9g\n",
            f"{PREFIX}r_regret_bound{at}%.9g\n",
            f"{PREFIX}pending_rewards{at}%d\n",
            f"{PREFIX}waiting_requests{at}%d\n",
            f"{PREFIX}longest_gap_slots{at}%d\n",
            gap_bound,
            f"{PREFIX}learner_faults_total{at}%d\n",
            f"{PREFIX}arms{at}{figures.size}\n",
            f"{PREFIX}arms_asleep{at}%d\n" if any_kind else "",
            f"{PREFIX}arms_busy{at}%d\n" if any_kind else "",
            f"{PREFIX}arms_hidden{at}{figures.size - len(arms)}\n",
        ]
        self.waiting = f"{PREFIX}oldest_waiting_timestamp_seconds{{{raw_labels}}} "
        inner = [f'{raw_labels},arm="{label_value(terms.names[arm])}"' for arm in arms]
        quotas = [repr(figures.quota(arm)) for arm in arms]
        self.means = [f"{PREFIX}mean_reward_estimate{{{each}}} " for each in inner]
        inner = [each.replace("%", "%%") for each in inner]
        self.of_arms = [
            "".join([f"{PREFIX}fairness_violation{{{each}}} %d\n" for each in inner]),
            "".join(
                f"{PREFIX}quota_ratio{{{each}}} {quota}\n"
                for each, quota in zip(inner, quotas, strict=True)
            ),
            "".join([f"{PREFIX}share_ratio{{{each}}} %r\n" for each in inner]),
            "".join([_by_reason("assignments_total", each) for each in inner]),
            "".join([f"{PREFIX}rewards_total{{{each}}} %d\n" for each in inner]),
            "".join([f"{PREFIX}reward_sum_total{{{each}}} %r\n" for each in inner]),
        ]


def _by_reason(metric: str, labels: str) -> str:
    return (
        f'{PREFIX}{metric}{{{labels},reason="fairness"}} %d\n'
        f'{PREFIX}{metric}{{{labels},reason="learner"}} %d\n'
    )


def _pool_columns(figures: Sequence[PoolFigures]) -> list[Sequence[float]]:
    """Return the numbers for `_Lines.of_pool`."""
    views = [each.of for each in figures]
    any_kind = [of for of in views if of.terms.requests == "any"]
    return [
        [each.worst for each in figures],
        [each.peak for each in figures],
        [of.violated_epochs for of in views],
        (),
        [each.broken for each in figures],
        (),
        [number for each in figures for number in (each.forced, each.pulls - each.forced)],
        [each.rewards for each in figures],
        [each.earned for each in figures],
        [each.regret for each in figures],
        [each.r_regret for each in figures],
        [each.r_regret_bound for each in figures],
        [of.open for of in views],
        [of.waiting for of in views],
        [each.gap for each in figures],
        (),
        [of.faults for of in views],
        (),
        [len(of.asleep) for of in any_kind],
        [of.busy for of in any_kind],
        (),
    ]


def _arm_columns(current: Sequence[_Current]) -> list[Sequence[float]]:
    """Return the numbers for `_Lines.of_arms`."""
    short: list[float] = []
    share: list[float] = []
    reasons: list[float] = []
    rewards: list[float] = []
    sums: list[float] = []
    for figures, arms in current:
        if arms:
            of = figures.of
            short += figures.short[arms].tolist()
            share += map(figures.share, arms)
            for arm in arms:
                forced = of.forced[arm]
                reasons += (forced, of.pulls[arm] - forced)
            rewards += [of.observed[arm] for arm in arms]
            sums += [of.total[arm] for arm in arms]
    return [short, (), share, reasons, rewards, sums]
