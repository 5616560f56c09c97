"""A pool shows where it stands: in rows, in one line, and in a notebook."""

import csv
import io
from typing import Any

import pytest

from fair_allocator import Learner, Pool
from fair_allocator.core.table import SHOWN, describe, html, rows


def played(rounds: int, arms: Any = None, **options: Any) -> Pool:
    pool = Pool(arms or {"ann": "0.3", "bob": "1/4", "cyd": 0}, **options)
    for number in range(rounds):
        pool.assign(str(number))
        if number % 2:
            pool.reward(str(number), 0.5)
    return pool


def test_a_row_says_what_the_pool_says_of_the_arm() -> None:
    pool = played(50)
    table = rows(pool)
    assert [row["arm"] for row in table] == list(pool.arms)
    for row in table:
        name = str(row["arm"])
        assert row == {
            "arm": name,
            "quota": float(pool.quotas[name]),
            "entitled": float(pool.entitled[name]),
            "pulls": pool.pulls[name],
            "forced": pool.forced[name],
            "share": pool.pulls[name] / 50,
            "shortfall": pool.shortfalls()[name],
            "gap": pool.gaps()[name],
            "open": pool.pending[name],
            "observed": pool.observed[name],
            "mean": pool.means[name],
        }
    assert sum(row["share"] for row in table) == pytest.approx(1)  # type: ignore[misc]


def test_a_new_pool_has_rows_without_shares_and_means() -> None:
    for row in rows(Pool({"ann": "0.3"})):
        assert (row["share"], row["mean"], row["pulls"], row["entitled"]) == (None, None, 0, 0.0)


def test_a_share_is_over_the_rounds_since_the_arm_joined() -> None:
    pool = played(100, {"ann": 0})
    pool.reconfigure({"ann": 0, "dan": "0.5"})
    assert rows(pool)[1]["share"] is None
    for number in range(10):
        pool.assign(f"more{number}")
    ann, dan = rows(pool)
    assert dan["share"] == pool.pulls["dan"] / 10
    assert ann["share"] == pool.pulls["ann"] / 110


def test_the_rows_fit_a_csv_file() -> None:
    table = rows(played(7))
    file = io.StringIO()
    writer = csv.DictWriter(file, list(table[0]))
    writer.writeheader()
    writer.writerows(table)
    read = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [row["arm"] for row in read] == ["ann", "bob", "cyd"]
    assert sum(int(row["pulls"]) for row in read) == 7
    assert {type(value) for row in table for value in row.values()} <= {str, int, float, type(None)}


class Mine(Learner):
    """Has no name: it is called by its class."""

    def choose(self, round: int, among: Any = None) -> Any:
        return 0, None


class Shop(Pool):
    pass


@pytest.mark.parametrize(
    ("pool", "line"),
    [
        (
            played(120, name="tasks", rule="earliest-deadline"),
            "<Pool 'tasks': 3 arms, 120 rounds, earliest-deadline, bound 0, learner ucb1>",
        ),
        (
            played(1, {"ann": 0}, tolerance="1500.5", learner="uniform"),
            "<Pool: 1 arm, 1 round, max-deficit, bound 1,500, learner uniform>",
        ),
        (
            Pool({"ann": "0.9", "bob": "0.1"}, rule="none"),
            "<Pool: 2 arms, 0 rounds, none, no guarantee, learner ucb1>",
        ),
        (
            Shop({"ann": 0}, learner=Mine(), name="it's"),
            '<Shop "it\'s": 1 arm, 0 rounds, max-deficit, bound 0, learner Mine>',
        ),
    ],
)
def test_one_line_says_what_a_pool_is(pool: Pool, line: str) -> None:
    assert describe(pool) == line


def test_a_notebook_shows_the_first_arms_and_takes_no_markup_from_their_names() -> None:
    pool = played(3, {"<b>": 0, **{f"arm{number}": 0 for number in range(SHOWN)}})
    shown = html(pool)
    assert shown.count("<tr>") == SHOWN + 1
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "and 1 more arm<" in shown
    assert "more arm" not in html(played(3))
