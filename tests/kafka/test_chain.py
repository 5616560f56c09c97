"""The hash chain on a real broker: two instances after each other, sealed, trimmed and audited."""

import json
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, driver
from fair_allocator.shard import chain
from fair_allocator.wiring import open_client
from fair_allocator.wiring.kafka import kafka_settings
from tests.kafka.test_commands import configured, serve
from tests.support.chained import follow_chain

EVERY = 16


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_chain_goes_from_instance_to_instance_and_can_be_sealed(
    client: str,
    delivery: str,
    broker: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", EVERY)
    file = configured(tmp_path, client, broker, 2, delivery)
    key, seals = str(tmp_path / "seal.pem"), str(tmp_path / "seals.ndjson")

    def run(*arguments: str, code: int = 0) -> str:
        assert main([*arguments, "--config", str(file)]) == code
        return capsys.readouterr().out

    run("topics", "--create")
    for turn in range(3):
        events = tmp_path / "requests.ndjson"
        ids = (json.dumps({"request_id": f"{turn}-{n}", "pool": f"p{n % 5}"}) for n in range(60))
        events.write_text("\n".join(ids))
        run("send", "requests", "--ndjson", str(events))
        serve(file, 60 * (turn + 1))  # an instance of its own each time
    with open_client(load(file, {})) as reader:
        heads = [follow_chain(reader, partition, EVERY) for partition in range(2)]
    public = run("seal", "--new-key", key).strip()
    check = ("audit", "--verify-key", public, "--seal", seals)
    run("seal", "--key", key, "--out", seals)
    sealed = json.loads(Path(seals).read_text())["heads"]
    assert [(head["records"], head["chain"]) for head in sealed] == heads
    assert f"{sum(records for records, _ in heads)} of them are sealed" in run(*check)
    run("audit", "--replay")

    # Retention takes the beginning away.
    settings = kafka_settings(load(file, {}))
    admin = driver(client, settings).admin()
    longer = heads.index(max(heads))
    admin.delete_before({("assignments", longer): 20})
    admin.close()
    run("audit")
    run(*check, "--partial")
    assert "sealed ones are missing at the beginning" in run(*check, code=1)

    # Somebody with the right to write repeats a record after the end, and before the next seal.
    with open_client(load(file, {})) as forger:
        last = [*forger.read("assignments", longer)][-1]
        forger.append("assignments", last.key, last.value, partition=longer)
    run("audit", code=1)
