"""Rules that look right and are not: each is seen to fail here, and the pool to hold."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import floor

import pytest

from fair_allocator import Pool
from tests.support.reference import Audited, Reference, Told, find_violation, fractions


def broken_at(
    unguarded: Reference,
    wishes: Sequence[int],
    bound: int,
    change: Callable[[Reference], None] = lambda _: None,
) -> int | None:
    """Return the round in which an unguarded rule first breaks the bound; change it before each."""
    for wish in wishes:
        change(unguarded)
        forced = unguarded.must_serve()
        unguarded.count(wish if forced is None else forced)
        if unguarded.violation() > bound:
            return unguarded.rounds
    return None


def named(quotas: Sequence[Fraction]) -> dict[str, Fraction]:
    return {f"arm{index}": quota for index, quota in enumerate(quotas)}


def hold(audited: Audited, wishes: Iterable[int]) -> None:
    """Play a pool with what breaks the unguarded rule; it checks itself in every round."""
    for wish in wishes:
        audited.play(f"arm{wish}")


# -- quotas that stay -----------------------------------------------------------------------------


def test_a_fractional_tolerance_must_be_floored_in_the_trigger() -> None:
    quotas, tolerance, wishes = fractions("1/4", "1/4", 0), Fraction(1, 2), [2, 2, 2, 0]

    unguarded = Reference(quotas, tolerance, "max-deficit")
    assert broken_at(unguarded, wishes, bound=0) == 4
    assert unguarded.pulls == [1, 0, 3]

    audited = Audited(named(quotas), tolerance)
    assert audited.pool.guarantee.rule == "max-deficit"
    hold(audited, wishes)


@pytest.mark.parametrize(
    ("quotas", "wishes", "round"),
    [(("0.67", "0.20", "0.10"), [2, 0, 1], 3), (("0.9", "0.05", "0.05"), [1] * 8, 8)],
    ids=str,
)
def test_max_deficit_fails_outside_its_condition(
    quotas: tuple[str, ...], wishes: list[int], round: int
) -> None:
    exact = fractions(*quotas)
    found = find_violation(Reference(exact, 0, "max-deficit"), bound=0, depth=round)
    assert found is not None
    assert len(found) == round
    if round == 3:
        assert found == wishes

    for everything in product(range(3), repeat=min(round, 6)):
        hold(Audited(named(exact)), everything)


@pytest.mark.parametrize("quotas", [("1/2", "1/2", 0), (1, 0), ("1/3", "1/3", "1/3", 0)], ids=str)
def test_the_late_trigger_fails_where_quotas_sum_to_one(quotas: tuple[str | int, ...]) -> None:
    exact = fractions(*quotas)
    idle = len(exact) - 1
    wishes = [idle] * 6

    assert broken_at(Reference(exact, 0, "earliest-deadline"), wishes, bound=0) is not None
    hold(Audited(named(exact)), wishes)


def test_the_late_trigger_fails_once_an_arm_without_quota_joins() -> None:
    halves = fractions("1/2", "1/2")
    late = Reference(halves, 0, "earliest-deadline")
    assert find_violation(late, bound=0, depth=12) is None

    joined = Reference((*halves, Fraction(0)), 0, "earliest-deadline")
    assert broken_at(joined, [2, 2], bound=0) == 2

    for before in range(4):
        audited = Audited(named(halves))
        hold(audited, [0] * before)
        audited.reconfigure(named((*halves, Fraction(0))))
        hold(audited, [2] * 8)


# -- floats ---------------------------------------------------------------------------------------


def first_wrong_entry(text: str) -> tuple[int, int]:
    """Return the first round in which floats owe an arm what fractions do not, and its pulls."""
    quota, pulls = Fraction(text), 0
    for round in range(1, 2_001):
        owed = quota * (round - 1) - pulls > 0
        if not owed and float(text) * (round - 1) - pulls > 0:
            return round, pulls
        pulls += owed
    raise AssertionError(f"floats are right about {text} for 2,000 rounds")


@pytest.mark.parametrize(
    ("text", "round"), [("0.28", 26), ("0.07", 101), ("0.14", 51), ("0.55", 101), ("0.56", 26)]
)
def test_floats_owe_an_arm_too_early(text: str, round: int) -> None:
    assert first_wrong_entry(text)[0] == round

    for quota in (text, float(text)):
        pool = Pool({"arm": quota, "idle": "0"}, learner=Told("idle"), rule="max-deficit")
        answers = [pool.assign(str(index)) for index in range(round)]
        assert answers[-1].reason == "learner"
        assert pool.pulls["arm"] == first_wrong_entry(text)[1]


@pytest.mark.parametrize("text", ["0.29", "0.35", "0.57", "0.58", "0.70"])
def test_an_audit_in_floats_misses_a_violation(text: str) -> None:
    quota = Fraction(text)
    round = next(t for t in range(1, 2_001) if floor(float(text) * t) < floor(quota * t))
    entitled = floor(quota * round)
    if text in ("0.29", "0.57"):
        assert round == 100

    told = Told("arm")
    pool = Pool({"arm": text, "idle": "0"}, learner=told, rule="none")
    for index in range(round):
        told.wish = "arm" if index < entitled - 1 else "idle"
        pool.assign(str(index))

    assert floor(float(text) * round) - pool.pulls["arm"] == 0
    assert pool.shortfalls()["arm"] == 1
    assert pool.violation() == 1
    assert pool.peak_violation() == 1


# -- quotas that change ---------------------------------------------------------------------------


def test_even_quotas_before_and_after_do_not_make_a_change_safe() -> None:
    """19 arms share 19 rounds; 10 are served and leave; 9 pulls then fall due within 4 rounds."""
    few, many, idle = Fraction(1, 9) - Fraction(1, 900), Fraction(1, 19) - Fraction(1, 1900), 19
    quotas = [many] * 19 + [Fraction(0)]
    wishes = [idle] * 40

    def replace_the_served(unguarded: Reference) -> None:
        if unguarded.rounds == 11:
            for arm in range(19):
                served = unguarded.pulls[arm] > 0
                unguarded.quotas[arm] = Fraction(0) if served else few
                if served:
                    unguarded.entitled[arm] = Fraction(unguarded.pulls[arm])

    unguarded = Reference(quotas, 0, "max-deficit")
    broken = broken_at(unguarded, wishes, bound=0, change=replace_the_served)
    assert broken is not None
    assert 12 < broken <= 16

    audited = Audited(named(quotas))
    hold(audited, wishes[:11])
    left = {name: few for name, pulls in audited.pulls.items() if not pulls}
    assert len(left) == 9
    change = audited.reconfigure({**left, "arm19": 0})
    assert change.guarantee.rule == "earliest-deadline", "no staircase any more: somebody is owed"
    assert change.waiting, "not all nine fit at once"
    assert change.waiting.items() < left.items()
    hold(audited, wishes)
    assert audited.pool.quotas_in_force == {**left, "arm19": 0}


def test_a_quota_set_to_zero_still_counts_while_its_arm_is_owed() -> None:
    """Two arms have a quota at any time, but four are owed."""
    quota, idle = Fraction(2, 5), 4
    before = [quota, quota, Fraction(0), Fraction(0), Fraction(0)]
    after = [Fraction(0), Fraction(0), quota, quota, Fraction(0)]

    def hand_over(unguarded: Reference) -> None:
        if unguarded.rounds == 1:
            unguarded.quotas = after

    unguarded = Reference(before, 0, "max-deficit")
    assert broken_at(unguarded, [idle] * 5, bound=0, change=hand_over) == 4

    audited = Audited(named(before))
    audited.play("arm4")
    audited.reconfigure(named(after))
    hold(audited, [idle] * 12)


def test_a_share_cannot_be_handed_on_by_an_arm_that_was_served_ahead() -> None:
    """Arm after arm is served on half of its due and passes its share on; others go short."""
    half, quarter = Fraction(1, 2), Fraction(1, 4)

    def holder(arm: int) -> list[Fraction]:
        return [half if index == arm else Fraction(0) for index in range(4)] + [quarter, quarter]

    def hand_on(unguarded: Reference) -> None:
        unguarded.quotas = holder(unguarded.rounds)

    unguarded = Reference(holder(0), 0, "earliest-deadline", early=True)
    assert broken_at(unguarded, [0] * 4, bound=0, change=hand_on) == 4

    audited = Audited(named(holder(0)))
    for arm in range(1, 4):
        hold(audited, [0])
        audited.reconfigure(named(holder(arm)))
    hold(audited, [0] * 8)


def test_arms_that_come_and_go_take_nothing_from_those_that_stay() -> None:
    """The same by replacing an arm: what it was served ahead leaves with it."""
    audited = Audited({"guest0": "1/2", "arm1": "1/4", "arm2": "1/4"})
    for guest in range(1, 13):
        audited.play(f"guest{guest - 1}")
        audited.reconfigure({f"guest{guest}": "1/2", "arm1": "1/4", "arm2": "1/4"})


def test_arms_that_come_and_go_take_nothing_below_a_sum_of_one() -> None:
    """Three guests, each replaced once it was served, and two arms due in the same round."""
    guests = ["guest0", "guest1", "guest2"]
    audited = Audited({**dict.fromkeys(guests, "0.29"), "arm1": "0.06", "arm2": "0.06", "idle": 0})
    for round in range(1, 41):
        answer = audited.play("idle")
        if answer.arm in guests:
            guests[guests.index(answer.arm)] = f"guest{round + 2}"
            shares: dict[str, str | int] = dict.fromkeys(guests, "0.29")
            audited.reconfigure({**shares, "arm1": "0.06", "arm2": "0.06", "idle": 0})


@pytest.mark.parametrize(
    ("before", "rounds", "after"),
    [
        ({"a": "0.4", "b": "0.4", "c": "0.1", "idle": 0}, 1, {"a": "0.3", "b": "0.3", "c": "0.3"}),
        ({"a": "0.1", "b": "0.1", "idle": 0}, 5, {"a": "0.4", "b": "0.1", "c": "0.5"}),
    ],
    ids=["due when it was due before", "due when it was due before, one service later"],
)
def test_a_changed_quota_is_not_served_twice(
    before: dict[str, str | int], rounds: int, after: dict[str, str | int]
) -> None:
    """A new quota can make an arm due in a round under which it was filed with the old one."""
    audited = Audited(before, tolerance=rounds // 5, rule="earliest-deadline")
    for _ in range(rounds):
        audited.play("idle")
    audited.reconfigure({**after, "idle": 0}, tolerance=0)
    for _ in range(20):
        audited.play("idle")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1, "b": 0}, {"a": "1/2", "b": "1/2"}),
        ({"a": 1, "b": 0}, {"a": 0, "b": "1/2"}),
        ({"a": "3/4", "b": "1/4", "c": 0}, {"a": "1/4", "b": "1/4", "c": "1/2"}),
        ({"a": "1/3", "b": "1/3", "c": "1/3"}, {"a": 0, "b": 0, "c": "1/2"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
@pytest.mark.parametrize("tolerance", [0, 1])
def test_shares_that_sum_to_one_can_be_given_up(
    before: dict[str, str | int], after: dict[str, str | int], rounds: int, tolerance: int
) -> None:
    """With no room at all somebody is owed in every round, and a change must not wait for that."""
    audited = Audited(before, tolerance)
    for _ in range(rounds):
        audited.play("b")
    audited.reconfigure(after, tolerance=0)
    for _ in range(40):
        audited.play("b")
    assert audited.pool.quotas_in_force == audited.pool.quotas


def test_full_carry_over_with_new_deadlines_fails() -> None:
    """An arm that is owed may not get a nearer deadline."""
    before, after, idle = fractions("0.3", "0.3", "0.3", 0), fractions(0, "0.5", "0.4", 0), 3

    def carry_over(unguarded: Reference) -> None:
        if unguarded.rounds == 2:
            unguarded.quotas = list(after)

    unguarded = Reference(before, 0, "earliest-deadline")
    assert broken_at(unguarded, [idle] * 3, bound=0, change=carry_over) == 3

    audited = Audited(named(before), rule="earliest-deadline")
    hold(audited, [idle] * 2)
    audited.reconfigure(named(after))
    hold(audited, [idle] * 20)
    assert not audited.pool.guarantee.changing


def test_a_lower_tolerance_with_new_deadlines_at_once_breaks_even_the_old_bound() -> None:
    quotas, idle = fractions("5/8", "1/3", 0), 2

    def lower(unguarded: Reference) -> None:
        if unguarded.rounds == 4:
            unguarded.tolerance = 0

    unguarded = Reference(quotas, 1, "earliest-deadline")
    assert broken_at(unguarded, [idle] * 5, bound=1, change=lower) == 5

    audited = Audited(named(quotas), tolerance=1)
    hold(audited, [idle] * 4)
    change = audited.reconfigure(tolerance=0)
    assert (change.guarantee.bound, change.guarantee.wanted) == (1, 0)
    hold(audited, [idle] * 80)
    assert audited.pool.guarantee.bound == 0


def test_starting_afresh_at_each_change_starves_an_arm() -> None:
    """The same quotas, set anew before every round: a reset never lets a deficit grow."""
    quotas = fractions("1/3", "1/4", 0)
    pulls = 0
    for _ in range(900):
        afresh = Reference(quotas, 0, "max-deficit")
        pulls += afresh.must_serve() is not None
    assert pulls == 0

    for rule in ("max-deficit", "earliest-deadline"):
        audited = Audited(named(quotas), rule=rule)
        other = fractions("1/3", "1/5", 0)
        for round in range(900):
            audited.play("arm2")
            audited.reconfigure(named(other if round % 2 == 0 else quotas))
        assert audited.pulls["arm0"] >= 300
