"""`audit --replay` of requests that name arms, wait, are declined and decided again."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_log import Site

pytestmark = pytest.mark.slow

CROWD = """
[pools.crowd]
arms = { ann = 0.3, bob = "1/4", cyd = 0.1, dan = 0 }
requests = "any"
learner = "uniform"
max_open = 2
bank = 3
caps = { dan = 0.5 }
reassign = true
reward_timeout = 0.2
wait_timeout = 0.4
tags = { ann = ["french"], bob = ["french", "trainee"] }

[pools.plain]
arms = { ann = 0.3, bob = "1/4" }
when_busy = "refuse"
"""

ARMS = ("ann", "bob", "cyd", "dan")


def ask(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a request of some kind, sometimes one that is refused."""
    request: dict[str, Any] = {"request_id": f"r{number}", "slots": rng.choice([1, 1, 2, 3])}
    match rng.randrange(5):
        case 0:
            request["eligible"] = rng.sample(ARMS, rng.randint(1, 3))
        case 1:
            request["needs"] = rng.choice(["french", "french & !trainee", "!french"])
        case 2 if rng.random() < 0.3:
            request["eligible"] = ["nobody"]
    return request


def story(site: Site, seed: int) -> None:
    rng = random.Random(seed)
    number = 0
    for _ in range(25):
        for _ in range(rng.randrange(6)):
            number += 1
            site.send("requests", "crowd", ask(rng, number))
        for _ in range(rng.randrange(6)):
            about = {"request_id": f"r{rng.randint(1, number + 1)}", "arm": rng.choice(ARMS)}
            kind = {"type": "declined"} if rng.random() < 0.4 else {"value": rng.random()}
            site.send("rewards", "crowd", {**about, **kind})
        site.request("plain", f"p{number}")
        match rng.randrange(8):
            case 0 | 1:
                site.control("crowd", "sleep", arms=rng.sample(ARMS, 2))
            case 2 | 3:
                site.control("crowd", "wake", arms=rng.sample(ARMS, 3))
            case 4:
                site.control(rng.choice(["crowd", "plain"]), rng.choice(["pause", "resume"]))
            case 5:
                quota = rng.choice(["0.2", "0.1"])
                site.control("crowd", "set-arm", arms={"cyd": {"quota": quota}, "eve": {}})
            case 6:
                site.control("crowd", "configure", tolerance=rng.randrange(3))
        if rng.random() < 0.7:
            site.serve()
    for pool in ("crowd", "plain"):
        site.control(pool, "resume")
    site.serve()


@pytest.mark.parametrize("seed", range(6))
def test_late_decisions_are_decided_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    site = Site.made(tmp_path, CROWD)
    story(site, seed)
    code = site("audit", "--replay")
    assert code == 0, capsys.readouterr().out
    assert site.events("assignments", "waiting")
    late = [each for each in site.events("assignments") if "request_offset" in each]
    assert any("instead_of" in each for each in late)


@pytest.mark.parametrize(
    ("topic", "refused"),
    [("controls", {"action": "wake", "arms": ["nobody"]}), ("requests", {"slots": "many"})],
)
def test_refused_inputs_stood_before_a_reward_of_an_earlier_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str, refused: dict[str, Any]
) -> None:
    site = Site.made(tmp_path, CROWD.replace("timeout = 0.", "timeout = 3600."))
    every_place = {"eligible": ["ann"], "slots": 1}
    site.send("requests", "crowd", *({"request_id": f"r{n}", **every_place} for n in range(3)))
    site.send(topic, "crowd", refused)
    site.serve()
    assert site.events("assignments", "waiting")
    assert site.events("dead-letters")
    value = json.dumps({"pool": "crowd", **refused}).encode()
    with closing(sqlite3.connect(tmp_path / "log.db")) as database, database:
        changed = database.execute(
            "UPDATE records SET timestamp = timestamp + 1000 WHERE value = ?", (value,)
        )
        assert changed.rowcount == 1
    site.send("rewards", "crowd", {"request_id": "r0", "arm": "ann", "value": 1.0})
    site.serve()
    last = site.events("assignments", "assignment")[-1]
    assert (last["request_id"], last["folded"]["rewards"]) == ("r2", 1)
    assert site("audit", "--replay") == 0, capsys.readouterr().out
