"""Instances of one's own: what they bring, what comes of them, and what is refused."""

import json
from collections.abc import Callable
from fractions import Fraction
from math import floor, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fair_allocator import Pool
from fair_allocator.cli import main
from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate import drawing, single, trial
from fair_allocator.simulate.batch import PolicyRun
from fair_allocator.simulate.policies import Instance, fair_ucb
from fair_allocator.simulate.regret import r_regret, regret
from fair_allocator.simulate.scenario import Scenario, load
from fair_allocator.simulate.world import ScenarioWorld, true_mean

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "instance.toml"

Capture = pytest.CaptureFixture[str]
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


def scenario(arms: dict[str, Any], policy: dict[str, Any] | None = None, **more: Any) -> Scenario:
    content = {"horizon": 300, "runs": 2, "arms": arms, "policies": {"mine": policy or {}}, **more}
    return Scenario.model_validate(content)


def once(found: Scenario, seed: int = 1, run: int = 0) -> trial.Trial:
    return trial.play_once(found, {}, found.policies["mine"], seed, run)


TWO = {"ann": {"mean": 0.9, "quota": "1/4"}, "bob": {"mean": 0.4, "quota": "1/4"}}


# -- rewards, delays, losses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm", "log", "mean", "deviation"),
    [
        ({"mean": 0.3}, [], 0.3, sqrt(0.21)),
        ({"beta": [2.0, 6.0]}, [], 0.25, sqrt(12 / (64 * 9))),
        ({"normal": {"mean": 0.5, "deviation": 0.1}}, [], 0.5, 0.1),
        # A normal around 0, cut in the middle: its mean is that of the half, sqrt(2 / pi) wide.
        ({"normal": {"mean": 0.0, "deviation": 0.1}}, [], 0.0797885, 0.1),
        ({"replay": "log.csv"}, [0.1, 0.2, 0.9], 0.4, 0.4),
    ],
    ids=str,
)
def test_rewards_have_the_mean_that_regret_is_measured_by(
    arm: dict[str, Any], log: list[float], mean: float, deviation: float
) -> None:
    found = scenario({"ann": arm})
    world = ScenarioWorld(found, {"ann": log}, 3, 0)
    rewards = [world.reward("ann") for _ in range(6_000)]
    assert all(0 <= reward <= 1 for reward in rewards)
    assert true_mean(found.arms["ann"], log) == pytest.approx(mean, abs=1e-6)
    assert np.mean(rewards) == pytest.approx(mean, abs=4 * deviation / sqrt(6_000))


def test_a_log_is_replayed_in_order_and_over_again() -> None:
    log = [0.1, 0.2, 0.3, 0.4]
    world = ScenarioWorld(scenario({"ann": {"replay": "log.csv"}}), {"ann": log}, 3, 0)
    rewards = [world.reward("ann") for _ in range(600)]
    start = log.index(rewards[0])
    assert rewards == [log[(start + n) % 4] for n in range(600)]


def test_every_policy_of_a_run_meets_the_same_luck_and_every_run_its_own() -> None:
    found = scenario(TWO, delay={"kind": "geometric", "rounds": 5, "loss": 0.3, "timeout": 50})
    first, again, other = (ScenarioWorld(found, {}, 3, run) for run in (0, 0, 1))
    lots = [
        [(w.reward("ann"), w.arrival("ann", t)) for t in range(1, 300)]
        for w in (first, again, other)
    ]
    assert lots[0] == lots[1] != lots[2]
    lost = sum(arrival is None for _, arrival in lots[0])
    assert lost / 299 == pytest.approx(0.3, abs=4 * sqrt(0.21 / 299))


@pytest.mark.parametrize(
    ("delay", "arrivals"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"rounds": 3}, [4, 5, 6, 7, 8, 9]),
        ({"kind": "batch", "rounds": 4}, [4, 4, 4, 4, 8, 8]),
    ],
    ids=str,
)
def test_rewards_come_when_they_are_said_to(delay: dict[str, Any], arrivals: list[int]) -> None:
    world = ScenarioWorld(scenario(TWO, delay=delay), {}, 3, 0)
    assert [world.arrival("ann", t) for t in range(1, 7)] == arrivals


def test_geometric_delays_have_their_mean() -> None:
    found = scenario(TWO, horizon=5_000, delay={"kind": "geometric", "rounds": 9})
    world = ScenarioWorld(found, {}, 3, 0)
    delays = [(world.arrival("ann", t) or 0) - t for t in range(1, 5_001)]
    assert min(delays) == 0
    assert np.mean(delays) == pytest.approx(9, abs=4 * sqrt(90 / 5_000))


def test_an_arm_may_lose_more_than_the_others() -> None:
    arms = {"ann": {"mean": 0.9, "loss": 1.0}, "bob": {"mean": 0.4}}
    world = ScenarioWorld(scenario(arms, delay={"timeout": 9}), {}, 3, 0)
    assert world.arrival("ann", 1) is None
    assert world.arrival("bob", 1) == 1


def test_lost_rewards_end_as_the_default_where_there_is_one() -> None:
    arms = {"ann": {"mean": 1.0, "loss": 1.0}, "bob": {"mean": 0.5}}
    silent = scenario(arms, delay={"timeout": 5})
    failing = scenario(arms, delay={"timeout": 5, "default": 0.0})
    # Without news of ann she is tried again and again; with failures she is not.
    assert once(silent).stays["ann"].pulls > 2 * once(failing).stays["ann"].pulls


def test_lost_rewards_are_not_waited_for_beyond_the_timeout() -> None:
    found = scenario({"ann": {"mean": 1.0, "loss": 1.0}}, delay={"timeout": 5})
    pool = Pool({"ann": 0})
    mail = trial._Mail(found, pool, ScenarioWorld(found, {}, 3, 0))
    for t in range(1, 50):
        mail.send(pool.assign(str(t)).arm, t)
        mail.deliver(t)
        assert pool.pending["ann"] == min(t, 5)


# -- what comes of it -----------------------------------------------------------------------------


def test_without_delay_it_costs_what_the_paper_counts() -> None:
    instance = Instance((0.9, 0.4, 0.6), (Fraction(1, 4), Fraction(1, 4), Fraction(0)))
    arms = {
        name: {"mean": mean, "quota": str(quota)}
        for name, mean, quota in zip("abc", instance.means, instance.quotas, strict=True)
    }
    found = scenario(arms)
    points = trial.checkpoints(found)
    played = once(found)
    pulls = [played.stays[name].pulls for name in "abc"]
    counted = np.array([[pulls]])
    assert played.measures[1, -1] == pytest.approx(regret(instance, counted)[0, 0])
    assert played.measures[2, -1] == pytest.approx(r_regret(instance, counted, [300])[0, 0])
    assert points[-1] == sum(pulls) == 300
    twin = single.play(instance, [PolicyRun(fair_ucb(), 0)], 300, 1, [300])
    assert played.measures[0, -1] == twin.worst[0] == 0


def test_arms_join_and_leave_and_every_quota_is_kept() -> None:
    arms = {**TWO, "cyd": {"mean": 0.2, "quota": "1/5", "joins": 101, "leaves": 201}}
    found = scenario(arms, {"tolerance": "2.5"})
    played = once(found)
    assert played.stays["ann"].rounds == 300
    cyd = played.stays["cyd"]
    assert cyd.rounds == 100
    assert cyd.pulls >= 100 // 5 - 2
    assert played.measures[0].max() == 2
    assert {100, 200} <= set(trial.checkpoints(found))


def test_a_shortfall_is_not_forgotten_when_its_arm_leaves() -> None:
    arms = {"ann": {"mean": 1.0}, "bob": {"mean": 0.0, "quota": "1/2", "leaves": 201}}
    found = scenario(arms, {"rule": "none"})
    worst = once(found).measures[0]
    assert worst[trial.checkpoints(found).index(200)] > 50
    assert np.all(np.diff(worst) >= 0)


def test_what_was_promised_to_an_arm_stays_left_out_when_it_leaves() -> None:
    arms = {"ann": {"mean": 1.0}, "bob": {"mean": 0.0, "quota": "1/2", "leaves": 201}}
    found = scenario(arms)
    played = once(found)
    beyond = played.stays["bob"].pulls - 100
    assert played.measures[2, trial.checkpoints(found).index(200)] == pytest.approx(beyond)
    assert played.measures[2, -1] == pytest.approx(beyond)


def test_a_newcomer_that_is_better_makes_the_others_cost() -> None:
    star = {"mean": 1.0, "joins": 151}
    found = scenario({"ann": {"mean": 0.6, "quota": "1/2"}, "eve": star})
    measures = once(found).measures
    before = trial.checkpoints(found).index(150)
    assert measures[1, before] == 0
    # Half of the rounds are promised to ann, and she had 150 of them in advance.
    assert measures[1, -1] < 0.4 * 150 * 0.25
    assert measures[2, -1] == pytest.approx(measures[1, -1])


def test_a_promise_that_is_kept_costs_no_r_regret_and_a_broken_one_counts_against_it() -> None:
    for policy, sign in (({"rule": "none"}, -1), ({}, 1)):
        found = scenario({"ann": {"mean": 1.0}, "bob": {"mean": 0.0, "quota": "1/2"}}, policy)
        played = once(found)
        missing = floor(Fraction(1, 2) * 300) - played.stays["bob"].pulls
        assert played.measures[2, -1] == pytest.approx(-missing)
        assert sign * played.measures[2, -1] >= 0


def test_the_number_of_processes_changes_nothing() -> None:
    found = scenario(TWO, {"learner": "thompson"}, delay={"kind": "geometric", "rounds": 5})
    assert trial.play(found, {}, 1, 4) == trial.play(found, {}, 1, 4, processes=2)
    assert trial.play(found, {}, 1, 4) != trial.play(found, {}, 2, 4)


def test_the_example_is_played_and_kept_fair(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = EXAMPLE.read_text().replace("horizon = 3000", "horizon = 2200")
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "past-rewards.csv").write_bytes((EXAMPLE.parent / "past-rewards.csv").read_bytes())
    words = ["simulate", "instance", str(tmp_path / "mine.toml"), "--runs", "2"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "fair-thompson" in capsys.readouterr().out
    data = json.loads((tmp_path / "instance.json").read_text())
    assert data["fair-ucb"]["worst violation"]["worst"] == 0
    assert data["fair-thompson"]["worst violation"]["worst"] == 0
    assert data["lenient"]["worst violation"]["worst"] <= 20
    assert data["plain-ucb1"]["worst violation"]["worst"] > 50
    assert data["plain-ucb1"]["bound"] is None
    assert data["fair-ucb"]["shares"]["dan"]["x"] == [2000]
    assert data["fair-ucb"]["shares"]["eve"]["x"] == [1200]
    assert data["fair-ucb"]["shares"]["bob"]["mean"][0] >= 0.124
    for name in ("instance.csv", "instance-shares.csv", "instance.png", "instance.svg"):
        assert (tmp_path / name).stat().st_size > 100

    monkeypatch.setattr(drawing, "draw_outcomes", lambda *_: [])
    assert main([*words, "--out", str(tmp_path / "again"), "--seed", "7"]) == 0
    same = [(tmp_path / at / "instance.csv").read_bytes() for at in (".", "again")]
    assert same[0] == same[1]


# -- what is refused ------------------------------------------------------------------------------

REST = "[policies.mine]\n"
HEAD = "horizon = 100\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (REST + "[arms.a]\nmean = 0.5", "mine.toml: horizon: is required"),
        (HEAD + REST + "[arms.a]\nmean = 1.5", "arms.a.mean: must be at most 1, got 1.5"),
        (
            HEAD + REST + "[arms.a]\nquota = 0.1",
            "arms.a: needs one of mean, beta, normal, replay, got none",
        ),
        (
            HEAD + REST + "[arms.a]\nmean = 0.5\nbeta = [1, 2]",
            "arms.a: needs one of mean, beta, normal, replay, got mean, beta",
        ),
        (
            HEAD + REST + "[arms.a]\nmean = 0.5\nquota = 1.5",
            "arms.a: quota must be in [0, 1], got 1.5",
        ),
        (HEAD + REST + "[arms.a]\nmaen = 0.5", "arms.a.maen: unknown key; the closest is mean"),
        (
            HEAD + REST + "[arms.a]\nmean = 0.5\njoins = 9\nleaves = 9",
            "arms.a: leaves must be after joins, got 9 and 9",
        ),
        (
            HEAD + REST + "[arms.a]\nmean = 0.5\njoins = 9",
            "arms: at least one must be there from round 1",
        ),
        (
            HEAD + REST + "[arms.a]\nnormal = {mean = 40, deviation = 0.1}",
            "arms.a.normal: mean 40.0 leaves hardly anything",
        ),
        (
            HEAD + REST + "[arms.a]\nmean = 0.5\n[delay]\nloss = 0.1",
            "delay.timeout: is required where rewards are lost",
        ),
        (
            HEAD + REST + '[arms.a]\nmean = 0.5\n[delay]\nkind = "slow"',
            "delay.kind: must be 'fixed', 'geometric' or 'batch', got 'slow'",
        ),
        (
            HEAD + REST + "tolerance = -1\n[arms.a]\nmean = 0.5",
            "policies.mine: tolerance must be at least 0, got -1",
        ),
        (
            HEAD + REST + '[arms.a]\nreplay = "gone.csv"',
            "gone.csv: cannot be read: No such file or directory",
        ),
        (HEAD + "[arms", "mine.toml: is not TOML"),
    ],
    ids=lambda text: text[-30:],
)
def test_a_mistake_is_named_with_file_key_and_value(
    text: str, complaint: str, write: Write
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        load(write(text))
    assert complaint in str(refusal.value)
    assert all("mine.toml" in line or "gone" in line for line in str(refusal.value).splitlines())


@pytest.mark.parametrize(
    ("policy", "arms", "complaint"),
    [
        ('learner = "ucb2"', "", "policies.mine: learner 'ucb2' is not known"),
        ('rule = "fair"', "", "policies.mine: rule must be one of"),
        (
            'rule = "max-deficit"',
            "[arms.c]\nmean = 0.1\nquota = 0.55\njoins = 50",
            "policies.mine from round 50 on: rule 'max-deficit' guarantees nothing here",
        ),
        (
            "",
            "[arms.c]\nmean = 0.1\nquota = 0.9\njoins = 50",
            "policies.mine from round 50 on: quotas sum to 1.3, which is 0.3 above 1",
        ),
        ("", "[arms.c]\nmean = 0.1\nquota = 0.9", "policies.mine: quotas sum to 1.3"),
    ],
    ids=str,
)
def test_a_pool_that_cannot_be_served_is_refused_before_anything_is_played(
    policy: str, arms: str, complaint: str, write: Write, capsys: Capture
) -> None:
    base = "[arms.a]\nmean = 0.5\nquota = 0.4\n[arms.b]\nmean = 0.5\n"
    path = write(f"{HEAD}{REST}{policy}\n{base}{arms}")
    assert main(["simulate", "instance", str(path), "--out", str(path.parent / "out")]) == 78
    assert f"mine.toml: {complaint}" in capsys.readouterr().err
    assert not (path.parent / "out").exists()


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ("arm,value\na,1\n", "has no column reward in its first line"),
        ("arm,reward\na,1\na,2\n", "line 3: needs an arm and a reward in [0, 1], got 'a' and '2'"),
        ("arm,reward\na,nan\n", "line 2: needs an arm and a reward"),
        ("arm,reward\nb,1\n", "has no rewards of arm 'a'"),
    ],
    ids=str,
)
def test_a_log_that_cannot_be_replayed_is_refused(
    log: str, complaint: str, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(log)
    with pytest.raises(ConfigurationError, match=r"log\.csv") as refusal:
        load(write(HEAD + REST + '[arms.a]\nreplay = "log.csv"'))
    assert complaint in str(refusal.value)
