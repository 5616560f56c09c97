"""The verifier follows requests that name arms, wait, are declined and decided again."""

import json
import random
from typing import Any

import pytest

from tests.crash.test_verifier import Copy
from tests.support.served import START, Served
from tests.support.verifier import Broken, Rules, verify

pytestmark = pytest.mark.slow

ARMS = ("ann", "bob", "cyd", "dan")
CROWD: dict[str, Any] = {
    "arms": {"ann": "0.3", "bob": "1/4", "cyd": "0.1", "dan": 0},
    "requests": "any",
    "learner": "uniform",
    "tags": {"ann": ["french"], "bob": ["french", "trainee"]},
}
KINDS: tuple[dict[str, Any], ...] = (
    {"max_open": 2, "reassign": True, "reward_timeout": 3.0, "wait_timeout": 4.0, "bank": 2},
    {"max_open": 1, "caps": {"dan": "1/2"}, "reward_timeout": 2.0, "default_reward": 0.5},
    {"when_busy": "refuse", "max_open": {"ann": 1}, "tolerance": 1},
    {"reassign": True, "caps": {"ann": "1/2", "bob": "1/2", "cyd": "1/2", "dan": "1/2"}},
)


def request(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a request of some kind, sometimes one that is refused."""
    said: dict[str, Any] = {"request_id": f"r{number}", "pool": "p"}
    if rng.random() < 0.4:
        said["slots"] = rng.randint(1, 3)
    match rng.randrange(6):
        case 0 | 1:
            said["eligible"] = rng.sample(ARMS, rng.randint(1, 3))
        case 2:
            said["needs"] = rng.choice(["french", "french & !trainee", "!french", "none"])
        case 3 if rng.random() < 0.3:
            said["eligible"] = ["nobody"]
    return said


def control(rng: random.Random, served: Served) -> None:
    match rng.randrange(9):
        case 0 | 1:
            served.control("sleep", arms=rng.sample(ARMS, 2))
        case 2 | 3:
            served.control("wake", arms=rng.sample(ARMS, 3))
        case 4:
            served.control(rng.choice(["pause", "resume", "resume"]))
        case 5:
            served.control("resume")
            served.control("wake", arms=list(ARMS[:3]))
        case 6:
            new = {"cyd": {"quota": rng.choice(["0.2", "0.1"])}, "eve": {"max_open": 1}}
            served.control("set-arm", arms=new)
        case 7:
            served.control("remove-arm", arms=[rng.choice(["eve", "dan"])])
        case 8:
            served.control("configure", tolerance=rng.randrange(3))


def story(seed: int) -> tuple[Copy, dict[str, tuple[int, int, int, float]]]:
    """Serve what a seed makes up; return the log, and what the pool has counted."""
    rng = random.Random(seed)
    served = Served({"p": CROWD | KINDS[seed % len(KINDS)]})
    number, now = 0, 0.0
    for _ in range(40):
        now += rng.choice([0, 0.1, 0.7])
        for _ in range(rng.randrange(3)):
            number += 1
            said = request(rng, number if rng.random() < 0.85 else rng.randint(1, number))
            served.send("requests", json.dumps(said).encode(), at=now)
        for _ in range(rng.randrange(4)):
            about = {"request_id": f"r{rng.randint(1, number + 1)}", "pool": "p"}
            if rng.random() < 0.9:
                about["arm"] = rng.choice(ARMS)
            kind = {"type": "declined"} if rng.random() < 0.4 else {"value": rng.random()}
            served.send("rewards", json.dumps({**about, **kind}).encode(), at=now)
        if rng.random() < 0.3:
            control(rng, served)
        served.turn(now=now)
    copy, arms = Copy(served.client), served.pool().columns
    columns = zip(arms.pulls, arms.pending, arms.observed, arms.total, strict=True)
    counts = dict(zip(arms.names, columns, strict=True))
    served.die()
    return copy, counts


def rules(seed: int) -> Rules:
    pool = CROWD | KINDS[seed % len(KINDS)]
    return Rules(now=START + 600_000, remembered=1_000, pools={"p": pool})


@pytest.mark.parametrize("seed", range(16))
def test_what_is_served_passes_and_is_counted(seed: int) -> None:
    log, counts = story(seed)
    assert verify(log, rules(seed), chained=False)["p"] == counts
    assert sum(pulls for pulls, _, _, _ in counts.values()) > 5


def test_a_control_takes_effect_before_its_time_passes() -> None:
    """A request whose last arm leaves is refused, though its time is up at the same moment."""
    served = Served({"p": CROWD | KINDS[0]})
    served.control("sleep", arms=["ann", "bob"])
    served.turn(now=0)
    said = {"request_id": "r1", "pool": "p", "needs": "french"}
    served.send("requests", json.dumps(said).encode(), at=0)
    served.turn(now=0)
    served.control("remove-arm", at=10, arms=["ann", "bob"])
    served.turn(now=10)
    assert served.reasons() == ["refused"]
    log = Copy(served.client)
    served.die()
    verify(log, rules(0), chained=False)


@pytest.mark.parametrize("seed", [0, 4])
def test_a_record_that_is_missing_is_found(seed: int) -> None:
    log, _ = story(seed)
    for place in range(len(log.topics["assignments"])):
        copy = Copy(log)
        copy.topics["assignments"].pop(place)
        with pytest.raises(Broken):
            verify(copy, rules(seed), chained=False)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_forged_in_an_assignment_is_found(seed: int) -> None:
    log, _ = story(seed)
    forged = 0
    for place, record in enumerate(log.topics["assignments"]):
        event = json.loads(record.value or b"")
        if event["type"] == "assignment" and not event["repeat"]:
            for name, value in {
                "arm": "nobody", "eligible": ["nobody"], "but": ["ann", "bob"], "away": ["nobody"],
                "back": [event["arm"]], "instead_of": "dan", "round": 1_000, "epoch": 77,
            }.items():  # fmt: skip
                if event.get(name) != value:
                    copy = Copy(log)
                    spoilt = json.dumps({**event, name: value}).encode()
                    copy.topics["assignments"][place] = record._replace(value=spoilt)
                    with pytest.raises((Broken, KeyError)):
                        verify(copy, rules(seed), chained=False)
                    forged += 1
    assert forged > 50
