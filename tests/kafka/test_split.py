"""A pool that is split over four partitions, served by two instances on a broker."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.cli import main
from fair_allocator.config import Configuration, load
from fair_allocator.log.parts import part_names, part_of
from fair_allocator.service import Service
from fair_allocator.wiring import open_client, open_log, service_settings
from tests.conformance.conftest import PATIENCE_SECONDS
from tests.support.cli_log import eventually
from tests.support.kafka_logs import fresh_settings
from tests.support.pace import scaled

PARTS = part_names("tasks", 4)
HALF = 200


def configured(folder: Path, broker: str, name: str, instance: str) -> Path:
    file = folder / f"{instance}.toml"
    file.write_text(
        '[log]\nkind = "confluent"\npartitions = 4\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{name}."\ngroup = "{name}"\n'
        f'instance = "{instance}"\n'
        "[service]\npoll_seconds = 0.05\n"
        '[pools.tasks]\narms = { ann = "1/10", bob = "1/3", cyd = 0 }\nparts = 4\n'
    )
    return file


@contextmanager
def serving(file: Path) -> Iterator[Service]:
    configuration = load(file, {})
    service = Service(open_log(configuration), service_settings(configuration, 4))
    thread = threading.Thread(target=service.run, name=file.stem, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        thread.join(scaled(PATIENCE_SECONDS))
        assert not thread.is_alive()


def answers(configuration: Configuration) -> list[dict[str, Any]]:
    with open_client(configuration) as client:
        values = [record.value for p in range(4) for record in client.read("assignments", p)]
    events = [json.loads(value or b"") for value in values]
    return [event for event in events if event["type"] == "assignment"]


def test_two_instances_share_one_pool(
    broker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = fresh_settings(broker).group
    one, two = (configured(tmp_path, broker, name, instance) for instance in ("one", "two"))
    configuration = load(one, {})
    stream = tmp_path / "requests.ndjson"

    def run(*arguments: str) -> str:
        code = main([*arguments, "--config", str(one)])
        said = capsys.readouterr()
        assert code == 0, (arguments, said.out, said.err)
        return said.out

    def ask(first: int) -> None:
        events = ({"request_id": f"r{n}", "pool": "tasks"} for n in range(first, first + HALF))
        stream.write_text("".join(json.dumps(event) + "\n" for event in events))
        run("send", "requests", "--ndjson", str(stream))

    run("topics", "--create")
    with ExitStack() as ending:
        with serving(two) as other:
            service = ending.enter_context(serving(one))
            eventually(lambda: len(service.shards) == len(other.shards) == 2)
            ask(0)
            eventually(lambda: len(answers(configuration)) == HALF)
        # The other instance has left. The first one takes its parts over and repeats answers.
        ask(0)
        ask(HALF)
        eventually(lambda: len(answers(configuration)) == 3 * HALF)
    given = answers(configuration)
    assert Counter(event["repeat"] for event in given) == {False: 2 * HALF, True: HALF}
    arms = {(event["request_id"], event["arm"]) for event in given}
    assert len(arms) == 2 * HALF
    for event in given:
        assert event["pool"] == part_of("tasks", event["request_id"], 4)
        assert event["partition"] == PARTS.index(event["pool"])
    report = json.loads(run("audit", "--replay", "--json"))
    assert (report["ok"], report["replay"]["difference"]) == (True, None)
    (row,) = report["splits"]
    assert (row["pool"], row["found"], row["rounds"], row["broken"]) == ("tasks", 4, 2 * HALF, [])
    assert row["worst"] <= row["tolerated"]
