"""Settings that cannot be served get an error that says what is wrong, and leave no trace."""

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest

from fair_allocator import InvalidPool, Pool
from tests.support.pace import scaled
from tests.support.refusals import ARMS, refused, running, unharmed

# -- quotas ---------------------------------------------------------------------------------------

NOT_NUMBERS = [
    nan, inf, -inf, "nan", "inf", Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), True,
    None, "", " ", "x", "0.2.1", "1/0", "0/0", "1/", "/3", "1/3/5", "1//3", "0,2", "20%", "0x1",
    b"0.2", [], {}, (1, 3), 0.5j, Ellipsis,
]  # fmt: skip


@pytest.mark.parametrize("quota", NOT_NUMBERS, ids=repr)
def test_a_quota_must_be_a_number(quota: Any) -> None:
    refused({"ann": quota, "bob": "0.1"}, match="'ann'.*expected a number")


@pytest.mark.parametrize("quota", [-0.1, "-1/3", -1, Decimal("-0.001"), Fraction(-1, 9), "-1e-9"])
def test_a_quota_must_not_be_negative(quota: Any) -> None:
    refused({"ann": quota, "bob": "0.1"}, match=r"'ann'.*in \[0, 1\]")


@pytest.mark.parametrize("quota", [1.1, "3/2", 2, Decimal("1.000001"), Fraction(10, 9)])
def test_a_quota_must_not_be_above_one(quota: Any) -> None:
    refused({"ann": quota, "bob": 0}, match=r"'ann'.*in \[0, 1\]")


@pytest.mark.parametrize(
    "quota",
    [1e-10, "1/1000000001", "0.0123456789", Fraction(1, 10**12), Fraction(1, 10**5_000), 1 / 3],
    ids=lambda quota: str(quota)[:20] if not isinstance(quota, Fraction) else "fraction",
)
def test_a_quota_must_not_have_a_huge_denominator(quota: Any) -> None:
    refused({"ann": quota, "bob": 0}, match="'ann'.*denominator")


@pytest.mark.parametrize("quota", [10**5_000, Fraction(10**5_000, 3)], ids=["int", "fraction"])
def test_a_quota_too_long_to_print_is_refused_as_any_other(quota: Any) -> None:
    refused({"ann": quota, "bob": 0}, match="'ann'")


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({"ann": 0.6, "bob": 0.45}, "sum to 1.05, which is 0.05 above 1"),
        ({"ann": "1/3", "bob": "1/3", "cyd": "1/2"}, "sum to 7/6, which is 1/6 above 1"),
        ({"ann": 1, "bob": "0.000000001"}, "sum to 1.000000001, which is 0.000000001 above 1"),
        ({f"arm{i}": "0.01" for i in range(101)}, "sum to 1.01, which is 0.01 above 1"),
    ],
)
def test_quotas_must_not_sum_to_more_than_one(arms: dict[str, Any], message: str) -> None:
    refused(arms, match=message)


def test_quotas_may_sum_to_exactly_one() -> None:
    thirds = Pool(dict.fromkeys(("ann", "bob", "cyd"), "1/3"))
    assert sum(thirds.quotas.values()) == 1
    hundredths = Pool({f"arm{index}": 0.01 for index in range(100)})
    assert sum(hundredths.quotas.values()) == 1


@pytest.mark.parametrize(
    "number",
    ["'1e-999999999'", "'1e999999999'", "'9' * 4_000", "'0.' + '1' * 4_000"],
)
@pytest.mark.parametrize("kind", ["str", "Decimal"])
def test_a_number_of_absurd_length_is_refused_before_it_is_worked_out(
    number: str, kind: str
) -> None:
    """In a process of its own: working it out could not be interrupted."""
    program = f"""
from decimal import Decimal
from fair_allocator import InvalidPool, Pool
number = {kind}({number})
for arms, tolerance in (({{"ann": number}}, 0), ({{"ann": 0}}, number)):
    try:
        Pool(arms, tolerance).state()
    except InvalidPool:
        continue
    raise SystemExit("accepted")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=scaled(60))


# -- arms -----------------------------------------------------------------------------------------


def test_an_arm_must_not_be_named_twice() -> None:
    refused([("ann", "0.1"), ("bob", "0.1"), ("ann", "0.2")], match="'ann' is named twice")


@pytest.mark.parametrize("arms", [{}, [], ()], ids=repr)
def test_a_pool_needs_an_arm(arms: Any) -> None:
    refused(arms, match="at least one arm")


@pytest.mark.parametrize("name", ["", None, 3, b"ann", ("ann",)], ids=repr)
def test_an_arm_needs_a_name(name: Any) -> None:
    refused({name: "0.1", "bob": "0.1"}, match="name must be a non-empty text")


@pytest.mark.parametrize(
    "arms", ["ann", b"ann", ["ann"], [("ann",)], [("ann", 0.1, 0.2)], [5], 5, 0.5, True], ids=repr
)
def test_arms_must_be_names_with_quotas(arms: Any) -> None:
    refused(arms)


# -- tolerance, rule, learner, the rest -----------------------------------------------------------


@pytest.mark.parametrize("tolerance", [x for x in NOT_NUMBERS if x is not None], ids=repr)
def test_a_tolerance_must_be_a_number(tolerance: Any) -> None:
    refused(tolerance=tolerance, match="tolerance.*expected a number")


@pytest.mark.parametrize("tolerance", [-1, "-1/2", -0.001, Decimal("-3")])
def test_a_tolerance_must_not_be_negative(tolerance: Any) -> None:
    refused(tolerance=tolerance, match="tolerance must be at least 0")


def test_a_tolerance_must_be_of_a_sane_size() -> None:
    refused(tolerance="1/1000000001", match="tolerance.*denominator")
    refused(tolerance=10**5_000, match="tolerance")


@pytest.mark.parametrize("rule", ["", "fair", "MAX-DEFICIT", 5, ["auto"]], ids=repr)
def test_a_rule_must_be_known(rule: Any) -> None:
    refused(rule=rule, match="auto, max-deficit, earliest-deadline")


def test_max_deficit_is_refused_where_it_guarantees_nothing() -> None:
    refused(
        {"ann": "0.67", "bob": "0.20", "cyd": "0.10"},
        rule="max-deficit",
        match="guarantees nothing.*3 arms.*0.67 is 2.01.*use rule 'earliest-deadline' or 'auto'",
    )
    refused({"ann": "1/2", "bob": "1/2"}, rule="max-deficit", match="is 1, not below 1")
    assert Pool({"ann": "0.9", "bob": "0"}, rule="max-deficit").guarantee.bound == 0


def test_a_change_cannot_leave_a_chosen_rule_without_its_guarantee() -> None:
    pool = Pool(ARMS, rule="max-deficit")
    with unharmed(pool), pytest.raises(InvalidPool, match="guarantees nothing"):
        pool.reconfigure({"ann": "0.67", "bob": "0.20", "cyd": "0.10"})


@pytest.mark.parametrize("rule", ["auto", "max-deficit", "earliest-deadline"])
def test_the_rule_none_cannot_be_switched_at_run_time(rule: str) -> None:
    for before, after in ((rule, "none"), ("none", rule)):
        pool = Pool(ARMS, rule=before)
        pool.assign("open")
        with unharmed(pool), pytest.raises(InvalidPool, match="make a new pool"):
            pool.reconfigure(rule=after)


@pytest.mark.parametrize(
    "learner",
    ["", "ucb", {"name": "ucb"}, {}, {"name": None}, {"name": ["ucb1"]}, 5, ["ucb1"]],
    ids=repr,
)
def test_a_learner_must_be_known(learner: Any) -> None:
    refused(learner=learner, match="learner")


def test_a_learner_must_know_its_parameters() -> None:
    refused(learner={"name": "ucb1", "speed": 3}, match="learner 'ucb1'")


@pytest.mark.parametrize("value", [-1, True, "3", 1.5, None], ids=repr)
def test_what_a_pool_remembers_must_be_a_count(value: Any) -> None:
    with pytest.raises(InvalidPool, match="remember"):
        Pool(ARMS, remember=value)


@pytest.mark.parametrize("value", [True, "3", 1.5, None], ids=repr)
def test_a_seed_must_be_an_int(value: Any) -> None:
    with pytest.raises(InvalidPool, match="seed"):
        Pool(ARMS, seed=value)


def test_one_bad_part_refuses_the_whole_change() -> None:
    good = {"dan": "0.4", "ann": "0.1"}
    for bad in ({"tolerance": -1}, {"learner": "nobody"}, {"rule": "none"}):
        pool = running()
        with unharmed(pool), pytest.raises(InvalidPool):
            pool.reconfigure(good, **bad)
    pool = running()
    with unharmed(pool), pytest.raises(InvalidPool):
        pool.reconfigure({"dan": "2"}, tolerance=3, learner="ucb1")
