"""Random pools of up to a dozen arms, changed and restored at any moment, under an adversary."""

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fair_allocator import InvalidPool, RewardOutcome
from tests.reference import Audited, is_even

SETTINGS = settings(
    max_examples=60,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
DENOMINATORS = (7, 12, 15, 20, 21, 33, 60, 97)
TOLERANCES = (Fraction(0), Fraction(0), Fraction(1, 2), Fraction(1), Fraction(9, 4))
IDLE = "idle"


@st.composite
def splits(draw: st.DrawFn, most: int) -> list[Fraction]:
    """Draw quotas with one denominator: even or skewed, and with a sum of up to exactly 1."""
    unit = draw(st.sampled_from(DENOMINATORS))
    left = draw(st.sampled_from((unit, unit, unit - 1, unit - 1, 3 * unit // 4)))
    quotas = []
    for _ in range(draw(st.integers(1, most))):
        part = draw(st.integers(0, left) if draw(st.booleans()) else st.integers(0, left // 3))
        quotas.append(Fraction(part, unit))
        left -= part
    return quotas


class ChangingPool(RuleBasedStateMachine):
    """A pool in the hands of an adversary; `Audited` checks every round and every change."""

    @initialize(quotas=splits(most=11), tolerance=st.sampled_from(TOLERANCES))
    def begin(self, quotas: list[Fraction], tolerance: Fraction) -> None:
        self.born = len(quotas)
        arms = {f"arm{index}": quota for index, quota in enumerate(quotas)}
        self.audited = Audited({**arms, IDLE: Fraction(0)}, tolerance)
        self.open: list[str] = []

    @rule(rounds=st.integers(1, 12))
    def leave_all_to_the_rule(self, rounds: int) -> None:
        for _ in range(rounds):
            self.audited.play(IDLE)

    @rule(data=st.data())
    def favour_an_arm(self, data: st.DataObject) -> None:
        self.audited.play(data.draw(st.sampled_from(self.audited.pool.arms)))

    @rule(data=st.data())
    def ask_for_a_reward(self, data: st.DataObject) -> None:
        request = f"open{self.audited.pool.rounds}"
        answer = self.audited.play(data.draw(st.sampled_from(self.audited.pool.arms)), request)
        assert self.audited.pool.assign(request) == answer._replace(repeat=True)
        self.open.append(request)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), value=st.none() | st.floats(0, 1))
    def answer_one(self, data: st.DataObject, value: float | None) -> None:
        pool = self.audited.pool
        request = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if value is None:
            assert pool.expire(request)
        else:
            assert pool.reward(request, value) in (RewardOutcome.COUNTED, RewardOutcome.ARM_LEFT)
        assert pool.reward(request, 1) is RewardOutcome.UNKNOWN

    @rule()
    def restart(self) -> None:
        self.audited.restore()

    @rule(quotas=splits(most=11), shift=st.integers(0, 4))
    def replace_everything(self, quotas: list[Fraction], shift: int) -> None:
        """Some arms stay, in another order; some leave, and some come, perhaps back."""
        arms = {f"arm{(shift + index) % 12}": quota for index, quota in enumerate(quotas)}
        self.change({IDLE: Fraction(0), **arms})

    @rule(data=st.data(), keep=st.sampled_from((Fraction(0), Fraction(1, 2))))
    def hand_a_share_on(self, data: st.DataObject, keep: Fraction) -> None:
        arms = self.audited.pool.quotas
        giver, taker = (data.draw(st.sampled_from(list(arms))) for _ in range(2))
        given = arms[giver] * (1 - keep)
        arms[giver] -= given
        arms[taker] += given
        self.change(arms)

    @rule(data=st.data())
    def replace_an_arm(self, data: st.DataObject) -> None:
        arms = self.audited.pool.quotas
        leaver = data.draw(st.sampled_from([name for name in arms if name != IDLE] or [IDLE]))
        if leaver != IDLE:
            self.born += 1
            newcomer = f"born{self.born}"
            self.change({(newcomer if n == leaver else n): q for n, q in arms.items()})

    @rule(tolerance=st.sampled_from(TOLERANCES))
    def change_the_tolerance(self, tolerance: Fraction) -> None:
        self.audited.reconfigure(tolerance=tolerance)

    @rule(name=st.sampled_from(("auto", "earliest-deadline", "max-deficit")))
    def change_the_rule(self, name: str) -> None:
        if name != "max-deficit" or is_even(list(self.audited.pool.quotas.values())):
            self.audited.reconfigure(rule=name)

    def change(self, arms: dict[str, Fraction]) -> None:
        """Change the arms; many odd denominators in a row may be refused, without a trace."""
        pool = self.audited.pool
        rule = pool.rule if pool.rule != "max-deficit" else "auto"
        before = pool.state()
        try:
            self.audited.reconfigure(arms, rule=rule)
        except InvalidPool as refusal:
            assert "denominators" in str(refusal)
            assert pool.state() == before

    def teardown(self) -> None:
        """A change takes effect in the end, wherever quotas leave any room."""
        if hasattr(self, "audited"):
            settle(self.audited)


def patience(audited: Audited) -> int | None:
    """Return in how many rounds a change must have taken effect, None if quotas leave no room.

    While somebody is owed in each of L rounds, each is a forced pull. An arm that is owed z
    gets at most z + r (L + 1) + 1 of them, so L <= (sum of z + n + S) / (1 - S) where quotas in
    force sum to S: then nobody is owed, and everything takes effect. Under max deficit S is what
    is in force. Under earliest deadline S is what is wanted, from when the last quota has fallen:
    its arm is served within (bound + 2) / r rounds, and makes room after as many more.
    """
    pool = audited.pool
    wanted, bound = pool.quotas, pool.guarantee.bound
    assert bound is not None
    force = pool.quotas_in_force
    fullest, falling = sum(wanted.values()), Fraction(0)
    if pool.guarantee.rule == "max-deficit":
        fullest = max(fullest, sum(force.values()))
    else:
        falling = max([2 * (bound + 2) / q for n, q in force.items() if wanted[n] < q], default=falling)
    if fullest >= 1:
        return None
    return ceil(falling + (len(force) * (bound + 2) + fullest) / (1 - fullest)) + 1


def settle(audited: Audited) -> None:
    rounds = patience(audited)
    if rounds is None:
        return
    for _ in range(rounds):
        if not audited.pool.guarantee.changing:
            break
        audited.play(IDLE)
    assert not audited.pool.guarantee.changing, audited.story
    assert audited.pool.guarantee.bound == floor(audited.pool.tolerance)
    assert audited.pool.quotas_in_force == audited.pool.quotas


TestChangingPool = ChangingPool.TestCase
TestChangingPool.settings = SETTINGS
