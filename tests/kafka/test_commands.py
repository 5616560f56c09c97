"""Every command works on Kafka as it does on a file."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.log.kafka import CLIENTS
from fair_allocator.service import Service
from fair_allocator.wiring import open_log, service_settings
from tests.conformance.conftest import PATIENCE_SECONDS
from tests.support.kafka_logs import fresh_settings
from tests.support.pace import deadline

Command = Callable[..., int]


def configured(
    folder: Path, client: str, broker: str, partitions: int, delivery: str = "exactly_once"
) -> Path:
    name = fresh_settings(broker).group
    file = folder / f"{name}.toml"
    file.write_text(
        f'[log]\nkind = "{client}"\npartitions = {partitions}\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{name}."\ngroup = "{name}"\n'
        f'delivery = "{delivery}"\n'
        '[service]\npoll_seconds = 0.05\n[pools."*"]\narms = { left = "1/3", right = "1/3" }\n'
    )
    return file


def serve(file: Path, expected: int) -> None:
    """Serve until all was read and so many rounds were played, then stop as on SIGTERM."""
    configuration = load(file, {})
    log = open_log(configuration)
    service = Service(log, service_settings(configuration, configuration.log.partitions))
    limit = deadline(PATIENCE_SECONDS)
    with closing(log):
        log.open(service)
        while rounds(service) != expected or any(log.behind().values()):
            assert time.monotonic() < limit
            service.step()
        service.drain()


def rounds(service: Service) -> int:
    return sum(
        hosted.pool.rounds
        for shard in service.shards.values()
        for name in sorted(shard.table)
        if (hosted := shard.table.hosted(name)) is not None
    )


@pytest.mark.parametrize(
    ("client", "delivery"),
    [*((client, "exactly_once") for client in CLIENTS), ("kafka", "at_least_once")],
)
def test_a_day_in_the_life_of_an_operator(
    client: str, delivery: str, broker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(tmp_path, client, broker, 2, delivery)
    events = tmp_path / "requests.ndjson"
    events.write_text(
        "".join(json.dumps({"request_id": f"r{n}", "pool": f"p{n % 5}"}) + "\n" for n in range(200))
    )

    def run(*arguments: str, on: Path = file) -> str:
        code = main([*arguments, "--config", str(on)])
        said = capsys.readouterr()
        assert code == 0, (arguments, said.out, said.err)
        return said.out

    run("topics", "--create")
    run("send", "requests", "--ndjson", str(events))
    run("send", "reward", "--pool", "nobody", "--id", "r1", "--value", "1")
    serve(file, 200)
    assert "every guarantee was kept" in run("audit", "--replay")
    assert {p["pool"] for part in inspected(run) for p in part["pools"]} == {
        f"p{n}" for n in range(5)
    }
    assert "unknown-pool" in run("dead-letters", "list")
    run("send", "request", "--pool", "nobody", "--id", "r1")
    serve(file, 201)
    assert "1 dead letter sent again" in run("dead-letters", "replay")
    assert "0 dead letters" in run("dead-letters", "list")
    state = tmp_path / "state.ndjson"
    state.write_text(run("export"))
    elsewhere = configured(tmp_path, client, broker, 3, delivery)
    run("topics", "--create", on=elsewhere)
    assert "6 pools imported into 3 partitions" in run("import", str(state), on=elsewhere)
    serve(elsewhere, 201)


def inspected(run: Callable[..., str]) -> list[dict[str, list[dict[str, str]]]]:
    partitions: list[dict[str, list[dict[str, str]]]] = json.loads(run("inspect", "--json"))[
        "partitions"
    ]
    return partitions
