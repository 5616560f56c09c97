"""Random pools of up to a dozen arms, changed and restored at any moment, under an adversary."""

import json
from fractions import Fraction
from math import ceil, floor
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fair_allocator import InvalidPool, Pool, RewardOutcome
from tests.support.reference import Audited, Told, is_even

pytestmark = pytest.mark.slow

SETTINGS = settings(
    max_examples=100,
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
        assert self.audited.pool.assign(request) == answer.repeated()
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
        except InvalidPool:
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
    wanted, force, bound = pool.quotas, pool.quotas_in_force, pool.guarantee.bound
    assert bound is not None
    fullest, falling = sum(wanted.values(), Fraction(0)), Fraction(0)
    if pool.guarantee.rule == "max-deficit":
        fullest = max(fullest, sum(force.values(), Fraction(0)))
    else:
        slow = [1 / quota for name, quota in force.items() if wanted[name] < quota]
        falling = 2 * (bound + 2) * max(slow, default=Fraction(0))
    if fullest == 1:
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


# -- random walks ---------------------------------------------------------------------------------


def shares(random: Random, unit: int) -> dict[str, Fraction]:
    """Draw up to six arms by name, with a sum of 1 or a little less, in units of 1/unit."""
    left = unit - random.choice([0, 1, 2])
    quotas = {}
    for name in random.sample("abcdef", random.randint(2, 6)):
        part = random.randint(0, left if random.random() < 0.4 else left // 3)
        quotas[name] = Fraction(part, unit)
        left -= part
    return {**dict(sorted(quotas.items())), IDLE: Fraction(0)}


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_holds_on_random_walks(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        unit = random.choice([10, 12, 20, 40])
        rule = random.choice(["auto", "earliest-deadline"])
        audited = Audited(shares(random, unit), random.choice([0, 0, 1]), rule)
        for _ in range(60):
            if random.random() < 0.12:
                audited.reconfigure(shares(random, unit), tolerance=random.choice([0, 0, 1]))
            audited.play(IDLE if random.random() < 0.8 else random.choice(audited.pool.arms))
        settle(audited)


@pytest.mark.parametrize("seed", range(5))
def test_a_pool_restored_before_every_round_goes_on_the_same(seed: int) -> None:
    random = Random(f"restored/{seed}")
    for _ in range(40):
        unit, rule = random.choice([10, 12, 20, 40]), random.choice(["auto", "earliest-deadline"])
        steady = Pool(shares(random, unit), 0, Told(IDLE), rule)
        restored = steady
        for round in range(40):
            restored = Pool.from_state(json.loads(text(restored)), learner=Told(IDLE))
            if random.random() < 0.15:
                arms, tolerance = shares(random, unit), random.choice([0, 0, 1])
                for pool in (steady, restored):
                    pool.reconfigure(arms, tolerance=tolerance)
            assert restored.assign(f"{round}") == steady.assign(f"{round}")
            assert text(restored) == text(steady)


def text(pool: Pool) -> str:
    return json.dumps(pool.state())


# -- what else a change must keep -----------------------------------------------------------------


@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
def test_no_arm_is_starved_by_a_change_before_every_round(rule: str) -> None:
    """The others swap shares and places all the time; what one arm is due just adds up."""
    random = Random(3)
    audited = Audited({"steady": "1/5", "a": "1/5", "b": "1/6", IDLE: 0}, rule=rule)
    for _ in range(600):
        audited.play(IDLE)
        others = random.sample([("a", "1/5"), ("b", "1/6"), ("c", "1/7")], random.randint(0, 2))
        audited.reconfigure({**dict(others), "steady": "1/5", IDLE: 0})
    assert audited.entitled["steady"] == 120
    assert audited.pulls["steady"] >= 120


def test_entitlements_grow_by_the_quotas_in_force() -> None:
    """What waits for nobody being owed comes with the first such round, and no sooner."""
    random = Random(11)
    for _ in range(60):
        pool = Audited(shares(random, 20), random.choice([0, 1])).pool
        for round in range(40):
            if random.random() < 0.2:
                pool.reconfigure(shares(random, 20), tolerance=random.choice([0, 1]))
            before, old, epoch = pool.entitled, pool.quotas_in_force, pool.epoch
            pool.learner.wish = random.choice(pool.arms)  # type: ignore[attr-defined]
            answer = pool.assign(str(round))
            grown = {name: pool.entitled[name] - before[name] for name in before}
            assert grown == (old if answer.epoch == epoch else pool.quotas)


@pytest.mark.parametrize("rounds", range(1, 9))
@pytest.mark.parametrize("leaver", ["a", "b", "c"])
def test_the_learner_gets_its_rounds_back_when_quotas_leave_room_again(
    rounds: int, leaver: str
) -> None:
    """Counting in the coming round's share is for quotas that sum to exactly 1."""
    arms = {"a": "1/2", "b": "1/4", "c": "1/4", IDLE: "0"}
    audited = Audited(arms, rule="earliest-deadline")
    for _ in range(rounds):
        audited.play(IDLE)
    del arms[leaver]
    audited.reconfigure(arms)
    for _ in range(20):
        audited.play(IDLE)
    for _ in range(40):
        owed = [name for name, ahead in audited.deficits().items() if ahead > 0]
        assert audited.play(IDLE).arm in (owed or [IDLE]), audited.story


def test_the_worst_shortfall_is_that_of_the_epoch_in_force() -> None:
    audited = Audited({"a": "1/2", IDLE: 0}, tolerance=2)
    for _ in range(4):
        audited.play(IDLE)
    assert audited.pool.violation() == audited.pool.peak_violation() == 2
    audited.play("a")
    assert (audited.pool.violation(), audited.pool.peak_violation()) == (1, 2)
    audited.reconfigure({IDLE: 0})
    assert audited.pool.violation() == -4
    assert audited.pool.peak_violation() == 0
