"""Forged logs: what the audit finds by the chain, by the journal, and by seals."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from fair_allocator.audit import Audit, Report
from fair_allocator.audit.chain import ChainAudit, Head
from fair_allocator.cli import main
from fair_allocator.events import CheckpointEvent, out_events
from fair_allocator.shard import chain
from tests.support.chained import chain_of
from tests.support.cli_log import Site
from tests.support.forgery import (
    PLAIN,
    LogFile,
    Values,
    assignments,
    edited,
    rechained,
)

pytestmark = pytest.mark.slow

EVERY = 32
"""A checkpoint after so many records here, so that short logs have several."""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", EVERY)


POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
learner = "uniform"
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site.made(tmp_path, POOLS, log="partitions = 1")
    for turn in range(5):
        site.request("tasks", *(f"r{turn}-{number}" for number in range(30)))
        site.serve()
    assert site("audit", "--replay") == 0
    return site


@pytest.fixture
def topic(site: Site) -> LogFile:
    return LogFile(site.configuration.log.path, 0)


def swap_equal_rounds(values: Values) -> None:
    """Give two requests each other's arms; entitlements and pulls come out right at the end."""
    free = [at for at in assignments(values) if json.loads(values[at])["reason"] == "learner"]
    for one, two in pairwise(free):
        arms = json.loads(values[one])["arm"], json.loads(values[two])["arm"]
        if two == one + 1 and arms[0] != arms[1] and one < EVERY:
            values[one] = edited(values[one], arm=arms[1])
            values[two] = edited(values[two], arm=arms[0])
            return
    raise AssertionError("no two free choices follow each other")


def rename_early(values: Values) -> None:
    at = assignments(values)[3]
    values[at] = edited(values[at], request_id="somebody-else")


def rename_last(values: Values) -> None:
    values[-1] = edited(values[-1], request_id="somebody-else")


def drop_tail(values: Values) -> None:
    del values[-10:]


FOUND: dict[str, tuple[Callable[[Values], None], str]] = {
    "arms swapped": (swap_equal_rounds, "the checkpoint at 32"),
    "an id changed": (rename_early, "the checkpoint at 32"),
    "the last id changed": (rename_last, "the journal covers"),
    "a tail dropped": (drop_tail, "10 at the end are missing"),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_plain_audit_finds_a_forgery(
    name: str, site: Site, topic: LogFile, capsys: Capture
) -> None:
    forge, sentence = FOUND[name]
    values = topic.values()
    forge(values)
    topic.write(values)
    assert site("audit") == 1
    assert sentence in capsys.readouterr().out


def test_the_replay_finds_an_id_that_was_changed_in_input_and_output(
    site: Site, topic: LogFile, capsys: Capture
) -> None:
    values = topic.values()
    at = assignments(values)[40]
    was = json.loads(values[at])["request_id"]
    values[at] = edited(values[at], request_id="somebody-else")
    topic.write(values)
    requests = LogFile(site.configuration.log.path, 0, "requests")
    requests.write([value.replace(was.encode(), b"somebody-else") for value in requests.values()])
    assert site("audit", "--replay") == 1
    said = capsys.readouterr().out
    assert "the checkpoint at 64 covers 64 with another chain: a record was changed" in said
    assert "assignments 0 @ 32" in said  # after the last checkpoint that is right
    assert "decided again, all" in said  # deciding again finds nothing


def test_the_replay_finds_a_dropped_tail(site: Site, topic: LogFile, capsys: Capture) -> None:
    topic.write(topic.values()[:-10])
    assert site("audit", "--replay") == 1
    said = capsys.readouterr().out
    assert "10 at the end are missing" in said
    assert "decided again, all" in said


# -- sealed ---------------------------------------------------------------------------------------


@pytest.fixture
def sealed(site: Site, tmp_path: Path, capsys: Capture) -> list[str]:
    """Seal the log; return the options that check it."""
    key, seals = tmp_path / "key.pem", tmp_path / "seals.ndjson"
    capsys.readouterr()
    assert main(["seal", "--new-key", str(key)]) == 0
    public = capsys.readouterr().out.strip()
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    return ["--verify-key", public, "--seal", str(seals)]


def test_a_chain_that_was_made_anew_is_found_by_the_seal(
    site: Site, topic: LogFile, sealed: list[str], capsys: Capture
) -> None:
    assert site("audit", *sealed) == 0
    assert "156 of them are sealed" in capsys.readouterr().out
    values = topic.values()
    rename_early(values)
    topic.write(rechained(values, EVERY))
    assert site("audit", *sealed) == 1
    assert "the seal of" in capsys.readouterr().out


def test_what_comes_after_the_seal_is_not_proven_and_no_offence(
    site: Site, sealed: list[str], capsys: Capture
) -> None:
    site.request("tasks", *(f"later-{number}" for number in range(20)))
    site.serve()
    assert site("audit", *sealed) == 0
    assert "177 records are chained, by 6 checkpoints; 156 of them are sealed" in (
        capsys.readouterr().out
    )


def test_a_beginning_that_is_gone_is_allowed_only_on_request(
    site: Site, topic: LogFile, sealed: list[str], capsys: Capture
) -> None:
    topic.trim(40)
    assert site("audit", "--partial", *sealed) == 0
    said = capsys.readouterr().out
    assert "92 of them are sealed" in said
    assert "24 records before the first checkpoint" in said
    assert site("audit", *sealed) == 1
    assert "64 sealed ones are missing at the beginning" in capsys.readouterr().out


def test_from_the_middle_a_forgery_is_found_too(
    site: Site, topic: LogFile, sealed: list[str], capsys: Capture
) -> None:
    values = topic.values()
    values[100] = edited(values[100], request_id="somebody-else")
    topic.write(values)
    topic.trim(40)
    assert site("audit", "--partial", *sealed) == 1


def test_nothing_that_is_left_after_the_last_seal_proves_nothing(
    site: Site, topic: LogFile, sealed: list[str], capsys: Capture
) -> None:
    site.request("tasks", *(f"later-{number}" for number in range(60)))
    site.serve()
    topic.trim(157)
    assert site("audit", "--partial", *sealed) == 1
    assert "of which none is left that could be checked" in capsys.readouterr().out


# -- at random ------------------------------------------------------------------------------------

FORGERIES = 1_200


def verdict(values: Values, heads: list[Head]) -> Report:
    """Audit records as `audit --verify-key` does."""
    audit = Audit(heads=heads)
    for offset, value in enumerate(values):
        audit.feed(0, offset, value)
    return audit.finish()


def faults_of_chain(values: Values, heads: list[Head]) -> list[str]:
    """Return what the chain alone finds wrong with records."""
    found: list[str] = []
    alone = ChainAudit(0, heads, lambda _partition, _offset, sentence: found.append(sentence))
    for offset, value in enumerate(values):
        try:
            event = out_events.validate_json(value)
        except ValidationError:
            event = None
        alone.take(offset, value, event if isinstance(event, CheckpointEvent) else None)
    alone.finish(len(values), trimmed=False, partial=False)
    return found


def forgeries(values: Values, rng: Random) -> Iterator[tuple[str, Values]]:
    """Yield forgeries for ever, half of them with the chain made anew."""
    while True:
        name = rng.choice(list(PLAIN))
        forged = list(values)
        PLAIN[name](forged, rng)
        if rng.random() < 0.5:
            forged, name = rechained(forged, EVERY), f"{name}, rechained"
        if forged[: len(values)] != values:  # else it changes nothing that is sealed
            yield name, forged


def test_every_random_forgery_of_a_sealed_log_is_found(topic: LogFile) -> None:
    values = topic.values()
    sealed = [Head(0, len(values), chain_of(values), "the seal")]
    assert verdict(values, sealed).ok
    assert not faults_of_chain(values, sealed)
    found: Counter[str] = Counter()
    for name, forged in islice(forgeries(values, Random(19)), FORGERIES):
        assert not verdict(forged, sealed).ok, name
        # Whether or not a guarantee is broken as well.
        assert faults_of_chain(forged, sealed), name
        found[name] += 1
    assert len(found) == 2 * len(PLAIN), "a kind of forgery was never tried"
