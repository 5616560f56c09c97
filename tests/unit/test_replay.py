"""`audit --replay` decides everything again from the inputs, and finds what differs."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.audit.replay import replay
from fair_allocator.log import Incoming
from fair_allocator.wiring import service_settings
from tests.support.cli_log import Site

pytestmark = pytest.mark.slow

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
learner = "uniform"
reward_timeout = 3600
default_reward = 0.25

[pools."*"]
arms = { left = "1/3", right = "1/3", middle = 0 }
learner = { name = "epsilon-greedy", epsilon = 0.3 }
"""


def story(site: Site, seed: int) -> None:
    """Requests, rewards, repeats, poison and controls in many small commits."""
    rng = random.Random(seed)
    for turn in range(12):
        for pool in ("tasks", "user-1", "user-2"):
            ids = [f"{pool}-{turn}-{number}" for number in range(rng.randrange(8))]
            site.request(pool, *ids, *ids[:1])
            site.reward(pool, **{key: rng.random() for key in ids if rng.random() < 0.7})
            site.reward(pool, never_asked=0.5)
        with site.client() as client:
            client.append("requests", b"tasks", b"not json")
        if turn % 3 == 1:
            quotas = {"ann": "0.5", "bob": rng.choice(["1/4", "1/8"]), f"new-{turn}": "0.1"}
            site.control("tasks", "configure", arms=quotas, tolerance=rng.randrange(3))
        if turn % 4 == 2:
            site.control("user-1", rng.choice(["pause", "resume", "remove"]))
            site.control("tasks", "configure", arms={"ann": 2})
        if rng.random() < 0.7:
            site.serve()
    site.control("user-1", "resume")
    site.serve()


@pytest.mark.parametrize("seed", range(4))
def test_deciding_again_gives_the_same_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    site = Site.made(tmp_path, POOLS)
    story(site, seed)
    assert site("audit", "--replay") == 0
    assert "decided again, all" in capsys.readouterr().out


def test_expiries_by_time_alone_are_decided_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, POOLS.replace("3600", "0.05"))
    site.request("tasks", *map(str, range(20)))
    site.serve()
    with site.service() as service:
        while not site.events("assignments", "tick"):
            service.step()
    site.reward("tasks", **{"3": 1.0, "4": 1.0})
    site.request("tasks", *map(str, range(20, 60)))
    site.serve()
    assert site("audit", "--replay") == 0
    assert "decided again, all" in capsys.readouterr().out


def test_letters_that_were_sent_again_are_decided_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, POOLS)
    site.control("nobody", "pause")
    site.serve()
    assert len(site.events("dead-letters")) == 1
    assert site("dead-letters", "replay") == 0
    site.request("tasks", "1")
    site.serve()
    assert site("audit", "--replay") == 0
    assert "decided again, all" in capsys.readouterr().out


@pytest.mark.parametrize(("forged", "same"), [(b"1.0", True), (b"0.5", False)])
def test_only_what_a_record_says_matters_not_how(tmp_path: Path, forged: bytes, same: bool) -> None:
    site = Site.made(tmp_path, POOLS)
    story(site, 1)
    with closing(sqlite3.connect(tmp_path / "log.db")) as database, database:
        rows = database.execute("SELECT id, value FROM records").fetchall()
        published = [(number, value) for number, value in rows if value.startswith(b'{"type":')]
        for number, value in published:
            other = json.dumps(json.loads(value), sort_keys=True, indent=1).encode()
            database.execute(
                "UPDATE records SET value = ? WHERE id = ?",
                (other.replace(b'"propensity": 1.0', b'"propensity": ' + forged), number),
            )
    assert published
    with site.client() as client:
        settings = service_settings(site.configuration, client.partitions)
        pools = {name: (pool.settings, pool.fingerprint) for name, pool in settings.pools.items()}
        assert replay(client, settings.shard, pools).ok == same
    assert site("audit") == 1  # the chain is over the bytes


def test_a_forged_choice_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site.made(tmp_path, POOLS)
    story(site, 1)
    other = site.file.read_text().replace("[log]", "seed = 1\n[log]")
    site.file.write_text(other)
    assert site("audit", "--replay") == 1
    assert "in the replay" in capsys.readouterr().out


def test_a_trimmed_log_cannot_be_decided_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, POOLS, log="retain_records = 10")
    for turn in range(60):
        site.request("tasks", *(f"{turn}-{number}" for number in range(10)))
        site.serve()
    assert site("audit", "--replay") == 70
    assert "a replay is not possible" in capsys.readouterr().err


def test_records_that_were_appended_later_do_not_matter(tmp_path: Path) -> None:
    site = Site.made(tmp_path, POOLS)
    story(site, 2)
    with site.client() as client:
        client.append_many([Incoming("rewards", b"tasks", b"{}"), Incoming("requests", b"x", b"")])
    assert site("audit", "--replay") == 0


def test_a_pool_keeps_the_seed_and_the_window_it_was_made_with(tmp_path: Path) -> None:
    site = Site.made(tmp_path, POOLS)
    site.request("user-1", *map(str, range(50)))
    site.serve()
    before = site.states()
    site.file.write_text(
        site.file.read_text().replace("[log]", "seed = 9\n[limits]\nremembered_per_pool = 7\n[log]")
    )
    assert site.states() == before
