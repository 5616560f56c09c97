"""A crowd: workers who are there for some requests only, served by ours and by others."""

import json
from fractions import Fraction
from itertools import pairwise
from math import floor
from pathlib import Path

import numpy as np
import pytest

from fair_allocator.cli import main
from fair_allocator.core.regret import r_regret
from fair_allocator.simulate import crowd
from fair_allocator.simulate.crowd import Contestant, Crowd, CrowdOutcome, CrowdRequests
from fair_allocator.simulate.crowd_measures import CrowdService, price, serve
from fair_allocator.simulate.policies import Ints

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]

SMALL = Crowd(workers=8, available=0.5, quota=Fraction(1, 10), rounds=600)
PAIRS = Crowd(workers=8, available=0.4, quota=Fraction(1, 8), rounds=400, slots=2)
ENTRANTS = {entrant.name: entrant for entrant in crowd.contestants(1)}


def played(setting: Crowd, entrant: Contestant) -> tuple[CrowdRequests, Ints, CrowdService]:
    requests = crowd.draw_requests(setting, 7, 0)
    picks = crowd.play_once(setting, crowd.make_pool(setting, entrant, 7, 0), requests)
    points = [setting.rounds]
    known = price(requests.means, requests.there, setting.quota, setting.slots, points)
    return requests, picks, serve(*requests, picks, setting.quota, known, points)


# -- the requests ---------------------------------------------------------------------------------


def test_the_same_seed_and_run_bring_the_same_requests() -> None:
    first, again = (crowd.draw_requests(SMALL, 7, 3) for _ in range(2))
    other = crowd.draw_requests(SMALL, 7, 4)
    for one, same, different in zip(first, again, other, strict=True):
        assert (one == same).all()
        assert (one != different).any()


def test_workers_are_there_and_earn_as_often_as_is_said() -> None:
    requests = crowd.draw_requests(Crowd(rounds=20_000), 1, 0)
    error = 4 * (0.25 / 20_000) ** 0.5
    assert np.abs(requests.there.mean(axis=0) - 0.6).max() < error
    assert np.abs(requests.pays.mean(axis=0) - requests.means).max() < error


def test_a_request_that_nobody_is_there_for_is_not_made() -> None:
    requests = crowd.draw_requests(Crowd(workers=2, available=0.1, rounds=500), 1, 0)
    assert requests.there.any(axis=1).all()
    assert len(requests.there) == 500


# -- the measures, against a plain loop and against the pool --------------------------------------


def plain_measures(setting: Crowd, requests: CrowdRequests, picks: Ints) -> tuple[float, ...]:
    """Return shortfall, regret, gap, reward and least share, request by request."""
    everybody = range(setting.workers)
    entitled, pulls = [Fraction(0)] * setting.workers, [0] * setting.workers
    waits, own = [0] * setting.workers, [0] * setting.workers
    worst, gap, regret, reward = 0, 0, 0.0, 0
    for there, pays, row in zip(requests.there, requests.pays, picks, strict=True):
        here = [worker for worker in everybody if there[worker]]
        filled = min(setting.slots, len(here))
        chosen = [int(worker) for worker in row if worker != crowd.NOBODY]
        assert len(chosen) == filled
        best = sorted((requests.means[worker] for worker in here), reverse=True)[:filled]
        regret += sum(best) - sum(requests.means[worker] for worker in chosen)
        reward += sum(int(pays[worker]) for worker in chosen)
        for worker in here:
            own[worker] += filled
            entitled[worker] += min(Fraction(1), setting.quota * filled)
            if worker in chosen:
                pulls[worker] += 1
                waits[worker] = 0
            else:
                waits[worker] += filled
        gap = max(gap, *waits)
        worst = max(worst, *(floor(entitled[worker]) - pulls[worker] for worker in everybody))
    share = min(pulls[worker] / own[worker] for worker in everybody)
    return worst, regret, gap, reward, share


@pytest.mark.parametrize("setting", [SMALL, PAIRS], ids=["one slot", "two slots"])
@pytest.mark.parametrize("name", ["fair-ucb", "ucb1", "tscsf-b eta=1000"])
def test_the_measures_are_those_of_a_plain_loop(setting: Crowd, name: str) -> None:
    requests, picks, service = played(setting, ENTRANTS[name])
    worst, regret, gap, reward, share = plain_measures(setting, requests, picks)
    assert service.over_time[:2, -1].tolist() == pytest.approx([worst, regret])
    assert service.at_end == pytest.approx((gap, reward, share))
    assert (worst > 0) == (name != "fair-ucb")


@pytest.mark.parametrize("setting", [SMALL, PAIRS], ids=["one slot", "two slots"])
@pytest.mark.parametrize("name", ["fair-ucb", "lfg eta=10"])
def test_the_pool_counts_the_same(setting: Crowd, name: str) -> None:
    requests = crowd.draw_requests(setting, 7, 0)
    pool = crowd.make_pool(setting, ENTRANTS[name], 7, 0)
    picks = crowd.play_once(setting, pool, requests)
    known = price(requests.means, requests.there, setting.quota, setting.slots, [setting.rounds])
    service = serve(*requests, picks, setting.quota, known, [setting.rounds])
    assert service.at_end[0] == pool.longest_gap()
    assert service.over_time[0, -1] == pool.peak_violation()
    assert service.at_end[1] == sum(pool.columns.total)
    assert np.bincount(picks[picks >= 0], minlength=setting.workers).tolist() == list(
        pool.pulls.values()
    )


def test_with_everybody_there_r_regret_is_the_papers() -> None:
    setting = Crowd(workers=5, available=1.0, quota=Fraction(1, 7), rounds=500)
    requests, picks, service = played(setting, ENTRANTS["fair-ucb"])
    pulls = np.bincount(picks[:, 0], minlength=5).tolist()
    means = requests.means.tolist()
    expected = r_regret(means, pulls, [Fraction(500, 7)] * 5, 0)
    assert service.over_time[2, -1] == pytest.approx(expected)


def test_quotas_cost_nothing_where_the_best_choice_keeps_them() -> None:
    # Each worker is alone half of the time, so the better one leaves the other its share.
    there = np.array([[True, True], [False, True]] * 50)
    means = np.array([0.9, 0.1])
    assert price(means, there, Fraction(1, 2), 1, [100]).quotas.tolist() == [0.0]
    # A quota of 3/4 demands 75 pulls; 50 come by themselves, each other one costs 0.8.
    assert price(means, there, Fraction(3, 4), 1, [100]).quotas.tolist() == pytest.approx([20.0])


def test_with_several_slots_a_pull_takes_the_place_of_the_last_of_the_best() -> None:
    there = np.full((100, 3), True)
    means = np.array([0.1, 0.9, 0.5])
    # Entitled to 50 pulls, each in place of the worker with 0.5.
    assert price(means, there, Fraction(1, 4), 2, [100]).quotas.tolist() == pytest.approx([20.0])
    # A quota of 3/4 of two slots is one pull a request at most.
    assert price(means, there, Fraction(3, 4), 2, [100]).quotas.tolist() == pytest.approx([40.0])


def test_a_pick_of_somebody_who_is_not_there_is_refused() -> None:
    requests, picks, _ = played(SMALL, ENTRANTS["fair-ucb"])
    picks[5, 0] = int(np.flatnonzero(~requests.there[5])[0])
    known = price(requests.means, requests.there, SMALL.quota, 1, [600])
    with pytest.raises(ValueError, match="not there"):
        serve(*requests, picks, SMALL.quota, known, [600])


# -- the contest ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes() -> dict[str, CrowdOutcome]:
    setting = Crowd(workers=12, quota=Fraction(1, 20), rounds=2_000)
    return crowd.play(setting, crowd.contestants(1), 7, 2)[0]


def test_only_ours_is_never_short(outcomes: dict[str, CrowdOutcome]) -> None:
    worst = {name: outcome.measures["worst shortfall"].worst for name, outcome in outcomes.items()}
    ours = {name for name in outcomes if name.startswith("fair-")}
    assert ours == {"fair-ucb", "fair-ucb bank=1", "fair-thompson"}
    assert all(worst[name] == 0 and outcomes[name].bound == 0 for name in ours)
    for name in ("ucb1", "lfg eta=1000", "tscsf-b eta=100", "tscsf-b eta=1000"):
        assert worst[name] not in (None, 0), name
        assert outcomes[name].bound is None


def test_only_a_bank_bounds_the_gap(outcomes: dict[str, CrowdOutcome]) -> None:
    waits = {name: outcome.wait for name, outcome in outcomes.items() if outcome.wait is not None}
    assert waits == {"fair-ucb bank=1": 39}
    (gap,) = outcomes["fair-ucb bank=1"].measures["longest gap"].worst_of_each
    assert gap <= 39
    assert min(outcomes["fair-ucb"].measures["longest gap"].worst_of_each) > 39


def test_a_larger_eta_costs_less_and_is_less_fair(outcomes: dict[str, CrowdOutcome]) -> None:
    for kind in ("lfg", "tscsf-b"):
        rows = [outcomes[f"{kind} eta={eta}"].measures for eta in crowd.ETAS]
        for less, more in pairwise(rows):
            assert less["regret"].mean[-1] > more["regret"].mean[-1]
            assert less["least share"].mean[-1] > more["least share"].mean[-1]


def test_a_contestant_plays_alike_whoever_else_does(outcomes: dict[str, CrowdOutcome]) -> None:
    setting = Crowd(workers=12, quota=Fraction(1, 20), rounds=2_000)
    alone, _ = crowd.play(setting, [ENTRANTS["lfg eta=10"]], 7, 2)
    assert alone["lfg eta=10"] == outcomes["lfg eta=10"]


def test_queues_can_be_given_the_same_target() -> None:
    pools = {
        name: crowd.make_pool(SMALL, entrant, 0, 0, same_target=True).quotas["worker 1"]
        for name, entrant in ENTRANTS.items()
    }
    assert pools["fair-ucb"] == pools["ucb1"] == Fraction(1, 10)
    assert pools["lfg eta=10"] == pools["tscsf-b eta=100"] == Fraction(1, 20)


# -- the command ----------------------------------------------------------------------------------

QUICK = [
    "simulate",
    "crowd",
    "--workers",
    "6",
    "--rounds",
    "300",
    "--seeds",
    "2",
    "--quota",
    "1/10",
]


def test_the_command_prints_a_table_and_draws(tmp_path: Path, capsys: Capture) -> None:
    for name in ("crowd.png", "crowd.svg"):
        assert main([*QUICK, "--bank", "2", "--plot", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["contestant", "shortfall", "bound", "gap", "bound"]
    rows = {line.split("  ")[0]: line.split() for line in lines[1:11]}
    assert list(rows) == [entrant.name for entrant in crowd.contestants(2)]
    assert rows["fair-ucb"][1:3] == ["0", "0"]
    assert rows["fair-ucb bank=2"][5] == "29"


def test_the_command_prints_json(capsys: Capture) -> None:
    assert main([*QUICK, "--slots", "2", "--available", "0.8", "--same-target", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["contestants"]["fair-ucb"]["worst shortfall"]["worst"] == 0
    assert data["contestants"]["ucb1"]["bound"] is None
    assert data["price of the quotas"]["runs"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--available", "0"], "--available must be in (0, 1], got 0.0"),
        (["--available", "nan"], "--available must be in (0, 1], got nan"),
        (["--quota", "1/5"], "sum"),
        (["--quota", "often"], "--quota"),
    ],
)
def test_the_command_refuses_what_cannot_be_played(
    words: list[str], said: str, capsys: Capture
) -> None:
    assert main([*QUICK, *words]) != 0
    assert said in capsys.readouterr().err
