"""Instances whose requests not every arm can take: availability, slots and capacity."""

import json
from math import sqrt
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate.scenario import load
from fair_allocator.simulate.world import ScenarioWorld
from tests.unit.test_simulate_instance import EXAMPLE, TWO, Capture, once, scenario

CREW = {
    "ann": {"mean": 0.9, "quota": "1/8", "available": 0.5},
    "bob": {"mean": 0.6, "quota": "1/8"},
    "cyd": {"mean": 0.3, "quota": "1/8", "available": 0.3},
    "dan": {"mean": 0.2, "quota": "1/8", "joins": 100, "leaves": 250},
}


def test_quotas_are_of_the_slots_that_an_arm_could_take() -> None:
    found = scenario(CREW, slots=2, horizon=2_000)
    run = once(found)
    assert run.measures[0, -1] == 0
    ann, bob = run.stays["ann"], run.stays["bob"]
    # Ann is there for half of the requests, with two slots; of bob's, about 35 % fill only one.
    assert ann.rounds / bob.rounds == pytest.approx(1 / 1.65, abs=0.05)
    assert 2_000 < bob.rounds < 4_000
    for stay in run.stays.values():
        assert stay.pulls >= stay.rounds // 8
    assert run.unserved == 0


def test_without_quotas_an_arm_falls_short_of_its_own_slots() -> None:
    arms = {"ann": {"mean": 0.9}, "bob": {"mean": 0.1, "quota": "1/3", "available": 0.5}}
    run = once(scenario(arms, {"rule": "none"}, horizon=2_000))
    assert run.measures[0, -1] > 100


def test_who_is_there_is_the_same_for_every_policy_and_as_often_as_said() -> None:
    found = scenario(CREW)
    one, same, other = (ScenarioWorld(found, {}, 3, run).there() for run in (0, 0, 1))
    rows = [next(one) for _ in range(2_000)]
    assert rows == [next(same) for _ in range(2_000)]
    assert rows != [next(other) for _ in range(2_000)]
    for name, chance in (("ann", 0.5), ("bob", 1.0), ("cyd", 0.3)):
        often = sum(name in row for row in rows) / 2_000
        assert often == pytest.approx(chance, abs=4 * sqrt(chance * (1 - chance) / 2_000) + 1e-9)


def test_a_busy_arm_gets_nothing_until_its_reward_comes() -> None:
    # Each of two arms has one assignment open for ten rounds: two of eleven requests are served.
    found = scenario(TWO, max_open=1, delay={"rounds": 10}, horizon=110)
    run = once(found)
    assert sum(stay.pulls for stay in run.stays.values()) == 20
    assert run.unserved == 90


def test_a_lost_reward_keeps_an_arm_busy_until_the_timeout() -> None:
    arms = {"ann": {"mean": 0.9, "max_open": 2, "loss": 1.0}}
    for default in (None, 0.0):
        delay = {"timeout": 9} if default is None else {"timeout": 9, "default": default}
        run = once(scenario(arms, delay=delay, horizon=100))
        assert run.stays["ann"].pulls == 20
        assert run.unserved == 80


def test_regret_is_held_against_the_best_who_could_take_the_request() -> None:
    # With as many slots as arms everybody is taken, whoever is there: nothing is lost.
    run = once(scenario(CREW, slots=4))
    assert run.measures[1, -1] == pytest.approx(0)
    alone = once(scenario({"ann": {"mean": 0.9, "available": 0.5}}))
    assert alone.unserved == 300 - alone.stays["ann"].pulls > 100


def test_the_command_plays_real_requests(tmp_path: Path, capsys: Capture) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("horizon = 3000", "horizon = 400")
    for wanted in ("slots = 3", "max_open = 10", "available = 0.6", "max_open = 5"):
        assert f"# {wanted}" in text
        text = text.replace(f"# {wanted}", wanted)
    text = text.replace('replay = "past-rewards.csv"', "mean = 0.5").replace("2001", "300")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("1001", "200"))
    assert main(["simulate", "instance", str(path), "--runs", "2", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "nobody could take" in printed
    data = json.loads((tmp_path / "instance.json").read_text())
    assert data["fair-ucb"]["worst violation"]["worst"] == 0
    assert data["fair-ucb"]["unserved"] > 0


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("arms.ann.available = 0", "arms.ann.available: must be greater than 0"),
        ("arms.ann.max_open = 0", "arms.ann.max_open: must be at least 1"),
        ("slots = 0", "slots: must be at least 1"),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, key: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"horizon = 10\n{key}\narms.ann.mean = 0.5\npolicies.mine.rule = 'auto'\n")
    with pytest.raises(ConfigurationError, match=said):
        load(path)
