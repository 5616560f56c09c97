"""`send`: events by hand and in streams, refused before they can do harm."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_log import Site

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site.made(tmp_path)
    with site.client():
        return site


def output_json(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


# -- by hand --------------------------------------------------------------------------------------


def test_a_request_is_sent_to_its_pools_partition(site: Site, capsys: Capture) -> None:
    home = site.home("tasks")
    assert site("send", "request", "--pool", "tasks", "--id", "r1") == 0
    assert capsys.readouterr().out == f"requests {home} @ 0: pool tasks, request r1\n"
    (record,) = site.records("requests")
    assert (record.partition, record.key) == (home, b"tasks")
    assert json.loads(record.value or b"") == {"pool": "tasks", "request_id": "r1"}


@pytest.mark.parametrize("what", ["request", "requests"])
def test_a_log_that_is_missing_is_made_only_if_asked_for(
    tmp_path: Path, capsys: Capture, what: str
) -> None:
    site = Site.made(tmp_path)
    file = tmp_path / "events.ndjson"
    file.write_text('{"pool": "tasks", "request_id": "r1"}\n', encoding="utf-8")
    events = ["--pool", "tasks"] if what == "request" else ["--ndjson", str(file)]
    assert site("send", what, *events) == 69
    said = capsys.readouterr().err
    assert "does not exist: check log.path" in said
    assert "--create" in said
    assert not list(tmp_path.glob("log.db*"))
    assert site("send", what, *events, "--create") == 0
    assert len(site.records("requests")) == 1


def test_a_command_that_only_reads_advises_no_option_that_it_lacks(
    tmp_path: Path, capsys: Capture
) -> None:
    assert Site.made(tmp_path)("inspect") == 69
    said = capsys.readouterr().err
    assert said.endswith("log.db does not exist: check log.path, or start a service on it first\n")


def test_a_request_without_an_id_gets_a_new_one(site: Site, capsys: Capture) -> None:
    ids = set()
    for _ in range(2):
        assert site("send", "request", "--pool", "tasks", "--json") == 0
        ids.add(output_json(capsys)["event"]["request_id"])
    assert len(ids) == 2


def test_events_sent_by_hand_are_understood(site: Site) -> None:
    control = ["send", "control", "--pool", "new", "--action", "configure", "--arm", "a=b=0.2"]
    more = ["--arm", "c=1/4", "--tolerance", "1", "--learner", "epsilon-greedy"]
    assert site(*control, *more, "--learner-parameter", "epsilon=0.5") == 0
    assert site("send", "request", "--pool", "new", "--id", "r1") == 0
    site.serve()
    assert site("send", "reward", "--pool", "new", "--id", "r1", "--value", "0.8") == 0
    site.serve()
    assert site.records("dead-letters") == []
    (hosted,) = filter(None, (shard.table.hosted("new") for shard in site.shards()))
    assert {arm: str(quota) for arm, quota in hosted.pool.quotas.items()} == {
        "a=b": "1/5",
        "c": "1/4",
    }
    assert hosted.pool.tolerance == 1
    assert hosted.pool.learner.parameters() == {"epsilon": 0.5}
    assert sum(hosted.pool.observed.values()) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["reward", "--pool", "p", "--id", "r", "--value", "7"],
            "fair-allocator: value: must be at most 1",
        ),
        (["reward", "--pool", "p", "--id", "r", "--value", "nan"], "no numbers for an event"),
        (["request", "--pool", "", "--id", "r"], "pool: must have at least 1 char"),
        (["request", "--pool", "p" * 300], "pool: must have at most 256 char"),
        (["request", "--pool", "\udcff"], "Invalid JSON"),
        (["request", "--pool", "p", "--partition", "9"], "--partition is 0 to 3"),
        (
            ["control", "--pool", "p", "--action", "configure", "--arm", "a=0.9", "--arm", "b=0.3"],
            "quotas sum to 1.2, which is 0.2 above 1",
        ),
        (
            ["control", "--pool", "p", "--action", "configure", "--learner", "luck"],
            "learner 'luck' is not known",
        ),
        (["control", "--pool", "p", "--action", "pause", "--tolerance", "1"], "takes no settings"),
        (
            ["control", "--pool", "p", "--action", "configure", "--arm", "a=0", "--arm", "a=1"],
            "an arm is named twice",
        ),
    ],
)
def test_a_bad_event_is_refused_before_it_is_sent(
    words: list[str], complaint: str, site: Site, capsys: Capture
) -> None:
    assert site("send", *words) == 2
    assert complaint in capsys.readouterr().err
    assert site.records("requests") + site.records("rewards") + site.records("controls") == []


def test_without_a_partitioner_the_partition_must_be_said(tmp_path: Path, capsys: Capture) -> None:
    site = Site.made(tmp_path, log='partitioner = "none"')
    with site.client():
        assert site("send", "request", "--pool", "tasks") == 2
    assert "say --partition" in capsys.readouterr().err
    assert site("send", "request", "--pool", "tasks", "--partition", "3") == 0
    assert [record.partition for record in site.records("requests")] == [3]


# -- streams --------------------------------------------------------------------------------------


def lines_of(*events: object) -> bytes:
    return b"".join(
        event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
        for event in events
    )


def ask(number: int, pool: str = "tasks") -> dict[str, object]:
    return {"request_id": f"r{number}", "pool": pool, "note": "kept as it is"}


def test_a_stream_is_sent_in_order_and_summed_up(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "requests.ndjson"
    events = [ask(number, f"pool{number % 5}") for number in range(2_000)]
    file.write_bytes(lines_of(*events).rstrip())
    assert site("send", "requests", "--ndjson", str(file), "--json") == 0
    said = output_json(capsys)
    assert (said["topic"], said["sent"], said["skipped"]) == ("requests", 2_000, 0)
    records = site.records("requests")
    assert sum(place["sent"] for place in said["partitions"]) == len(records) == 2_000
    for pool in range(5):
        key = f"pool{pool}".encode()
        got = [json.loads(record.value or b"") for record in records if record.key == key]
        assert got == events[pool::5]


def test_the_first_bad_line_is_named_and_nothing_after_it_is_sent(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "requests.ndjson"
    file.write_bytes(lines_of(ask(1), b"\n", ask(2), {"pool": "tasks"}, ask(3)))
    assert site("send", "requests", "--ndjson", str(file)) == 1
    said = capsys.readouterr().err
    assert f"{file}:4: request_id: Field required; nothing from this line on was sent" in said
    assert "2 requests were sent before this" in said
    assert len(site.records("requests")) == 2


def test_bad_lines_can_be_left_out(site: Site, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "requests.ndjson"
    long = b'{"request_id": "r9", "pool": "%s"}\n' % (b"x" * 200_000)
    file.write_bytes(lines_of(ask(1), b"nonsense\n", long, b"\xff\n", ask(2), b"[]"))
    assert site("send", "requests", "--ndjson", str(file), "--skip-bad") == 0
    captured = capsys.readouterr()
    assert "2 requests sent, 4 bad lines left out" in captured.out
    assert f"left out {file}:3: longer than limits.record_bytes, 65,536" in captured.err
    assert len(site.records("requests")) == 2


def test_a_stream_comes_from_standard_input(
    site: Site, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewards = [{"request_id": f"r{number}", "pool": "tasks", "value": 1} for number in range(3)]
    stream = io.TextIOWrapper(io.BytesIO(lines_of(*rewards, b"{")))
    monkeypatch.setattr("sys.stdin", stream)
    assert site("send", "rewards", "--ndjson", "-") == 1
    assert "<stdin>:4: Invalid JSON" in capsys.readouterr().err
    assert len(site.records("rewards")) == 3


def test_controls_of_a_stream_must_be_servable(site: Site, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "controls.ndjson"
    file.write_bytes(lines_of({"action": "configure", "pool": "p", "arms": {"a": "2/3", "b": 0.5}}))
    assert site("send", "controls", "--ndjson", str(file)) == 1
    assert "quotas sum to" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_bad_usage(site: Site, capsys: Capture) -> None:
    assert site("send", "requests", "--ndjson", "/nowhere/at/all") == 2
    assert "/nowhere/at/all: No such file or directory" in capsys.readouterr().err


# -- real requests ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "topic", "event"),
    [
        (
            "request --pool p --id r --eligible ann bob --slots 2",
            "requests",
            {"pool": "p", "request_id": "r", "eligible": ["ann", "bob"], "slots": 2},
        ),
        (
            "request --pool p --id r --needs french",
            "requests",
            {"pool": "p", "request_id": "r", "needs": "french"},
        ),
        (
            "decline --pool p --id r --arm ann",
            "rewards",
            {"pool": "p", "type": "declined", "request_id": "r", "arm": "ann"},
        ),
        (
            "control --pool p --action set-arm --arm ann=1/4 --arm bob --cap none --tag x --tag y",
            "controls",
            {
                "pool": "p",
                "action": "set-arm",
                "arms": {
                    "ann": {"quota": "1/4", "cap": None, "tags": ["x", "y"]},
                    "bob": {"cap": None, "tags": ["x", "y"]},
                },
            },
        ),
        (
            "control --pool p --action sleep --arm ann",
            "controls",
            {"pool": "p", "action": "sleep", "arms": ["ann"]},
        ),
        (
            "control --pool p --action configure --arm a=1/4 --requests any --reassign",
            "controls",
            {
                "pool": "p",
                "action": "configure",
                "arms": {"a": "1/4"},
                "requests": "any",
                "reassign": True,
            },
        ),
    ],
)
def test_real_requests_are_sent_as_they_are_said(
    site: Site, words: str, topic: str, event: dict[str, Any]
) -> None:
    assert site("send", *words.split()) == 0
    (record,) = site.records(topic)
    assert json.loads(record.value or b"") == event


@pytest.mark.parametrize(
    "words",
    [
        "control --pool p --action sleep",
        "control --pool p --action pause --arm ann",
        "control --pool p --action set-arm --arm ann --tolerance 1",
        "control --pool p --action configure --arm ann=1 --tag x",
        "control --pool p --action configure --arm ann",
    ],
)
def test_settings_that_an_action_does_not_take_are_refused(site: Site, words: str) -> None:
    assert site("send", *words.split()) == 2
