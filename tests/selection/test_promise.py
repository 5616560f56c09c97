"""The promise of a real pool through changes that once broke it."""

from typing import Any

from fair_allocator import Learner, Pool

SHARES = {"A": "1/2", **{f"b{number}": "1/15" for number in range(7)}, "s": "0"}


class Wishing(Learner):
    """A learner that wants `s`, and `b0` once in round 7."""

    name = "wishing"
    cost = "O(1)"

    def choose(self, round: int, among: Any = None) -> tuple[int, float]:
        wish = "b0" if round == 7 and "b0" in self.arms.index else "s"
        return self.arms.index[wish], 1.0


def check_promise(pool: Pool) -> None:
    bound = pool.guarantee.bound
    assert bound is not None
    short = {name: amount for name, amount in pool.shortfalls().items() if amount > bound}
    assert not short, f"round {pool.rounds}: {short} with bound {bound}"


def test_tolerance_lowered_and_raised_again_keeps_the_bound() -> None:
    """Tolerance 5, 0 and 5 again with a quota moved: nobody falls short by more than promised.

    A reservation shortened by the tolerance of the moment let b6 be 6 short in round 90.
    """
    pool = Pool(SHARES, tolerance=5, learner=Wishing(), rule="earliest-deadline")
    for round in range(1, 200):
        pool.assign(f"r{round}")
        if round == 75:
            pool.reconfigure(tolerance=0)
        if round == 84:
            pool.reconfigure({**SHARES, "A": "0", "b0": "17/30"}, tolerance=5)
        check_promise(pool)


def test_lower_bound_is_not_left_to_max_deficit_while_an_arm_is_owed() -> None:
    """(I) lets the bound come down after round 4, but max deficit would then serve the wrong arm.

    It would serve `a`, whose deficit is larger, and leave `b` one pull short in round 5.
    """
    pool = Pool({"a": "1/6", "b": "2/5", "s": 0}, tolerance=1, learner=Wishing())
    assert pool.guarantee.rule == "max-deficit"
    for round in range(1, 100):
        pool.assign(f"r{round}")
        if round == 3:
            pool.reconfigure(tolerance=0)
        check_promise(pool)
