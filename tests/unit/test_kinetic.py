"""The best of many moving lines that come and go."""

from random import Random

import pytest

from fair_allocator.core.among import Among
from fair_allocator.core.kinetic import NOBODY, LineTournament, Tournament

LINES: list[tuple[float, float] | None] = [(1.0, 0.0), (3.0, 0.0), (2.0, 0.0)]


def test_a_champion_that_reigns_can_leave_and_come_back() -> None:
    race = LineTournament(LINES, 1e-9, 0.0)
    assert [race.champion(float(x)) for x in range(3)] == [1, 1, 1]
    race.leave(1, 3.0)
    assert [race.champion(float(x)) for x in range(3, 6)] == [2, 2, 2]
    race.leave(2, 6.0)
    race.leave(0, 6.0)
    assert [race.champion(float(x)) for x in range(6, 9)] == [NOBODY] * 3
    assert race.best(2, Among(3), 9.0) == []
    race.update(2, 2.0, 0.0, 9.0)
    assert race.best(2, Among(3), 9.0) == [2]
    race.update(1, 3.0, 0.0, 9.0)
    assert race.best(2, Among(3), 9.0) == [1, 2]


def test_a_contestant_without_a_line_is_not_in_yet() -> None:
    race = LineTournament([None, (1.0, 0.0), None], 1e-9, 0.0)
    assert race.best(3, Among(3), 0.0) == [1]
    race.update(2, 5.0, 0.0, 1.0)
    assert race.best(3, Among(3), 1.0) == [2, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_the_best_lines_are_those_of_a_plain_loop(size: int) -> None:
    rng = Random(size)

    def line() -> tuple[float, float]:
        return rng.choice([0.0, 0.5, 1.0, rng.random()]), rng.choice([0.1, 0.2, rng.random()])

    lines: dict[int, tuple[float, float]] = {arm: line() for arm in range(size)}
    race = LineTournament(list(lines.values()), 1e-12, 0.0)
    x = 0.0
    for _ in range(600):
        x += rng.choice([0.0, 0.0, 0.01, 1.0])
        arm = rng.randrange(size)
        if rng.random() < 0.3:
            lines.pop(arm, None)
            race.leave(arm, x)
        else:
            lines[arm] = line()
            race.update(arm, *lines[arm], x)
        if rng.random() < 0.5:
            race.champion(x)
        out = {arm for arm in range(size) if rng.random() < 0.2}
        count = rng.randrange(1, size + 1)
        ranked = sorted(
            set(lines) - out, key=lambda arm: (-(lines[arm][0] + lines[arm][1] * x), arm)
        )
        assert race.best(count, Among(size, extra=out), x) == ranked[:count]


def test_those_who_are_away_stay_out_until_they_are_updated() -> None:
    def duel(low: int, high: int, x: int) -> tuple[int, int]:
        return low, 1 << 62

    race = Tournament(4, duel, 1 << 62)
    race.enter(range(4), 0)
    assert race.best(2, Among(4, away={0}, extra={1}), 0) == [2, 3]
    assert race.champion(0) == 1
    race.update(0, 0)
    assert race.best(4, Among(4), 0) == [0, 1, 2, 3]
