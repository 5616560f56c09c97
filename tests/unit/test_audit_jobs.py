"""An audit by several processes finds what an audit by one does."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_log import Site

Capture = pytest.CaptureFixture[str]

PARTITIONS = 3


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site.made(tmp_path, log=f"partitions = {PARTITIONS}")
    for pool in range(12):
        site.request(f"pool-{pool}", *(f"r{number}" for number in range(20)))
    site.serve()
    return site


def audited(site: Site, capsys: Capture, *options: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = site("audit", "--json", *options)
    return code, json.loads(capsys.readouterr().out)


def both_ways(site: Site, capsys: Capture, *options: str) -> tuple[int, Any]:
    """Audit by one process and by two; return what both found."""
    alone = audited(site, capsys, "--jobs", "1", *options)
    assert audited(site, capsys, "--jobs", "2", *options) == alone
    return alone


def forge(site: Site, pool: str, partition: int) -> None:
    """Publish the last assignment of a pool once more, with another arm."""
    last = [record for record in site.records("assignments") if record.key == pool.encode()][-1]
    event = json.loads(last.value or b"") | {"arm": "nobody", "partition": partition}
    with site.client() as client:
        client.append("assignments", last.key, json.dumps(event).encode(), partition=partition)


def test_a_clean_log(site: Site, capsys: Capture) -> None:
    code, report = both_ways(site, capsys)
    assert (code, report["ok"]) == (0, True)
    assert {row["rounds"] for row in report["pools"] if row["pool"] != "tasks"} == {20}
    assert len(report["chains"]) > 1
    assert len({row["partition"] for row in report["pools"]}) > 1


def test_an_offence_is_named_with_its_place(site: Site, capsys: Capture) -> None:
    home = site.home("pool-1")
    forge(site, "pool-1", home)
    code, report = both_ways(site, capsys)
    assert (code, report["first"]["pool"], report["first"]["partition"]) == (1, "pool-1", home)


def test_a_pool_in_two_partitions_is_found(site: Site, capsys: Capture) -> None:
    forge(site, "pool-1", (site.home("pool-1") + 1) % PARTITIONS)
    code, report = both_ways(site, capsys)
    assert code == 1
    assert report["offences"] >= 1


def test_a_seal_must_cover_every_partition_with_records(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    key, seals = tmp_path / "seal.pem", tmp_path / "seals.ndjson"
    assert site("seal", "--new-key", str(key)) == 0
    public = capsys.readouterr().out.strip()
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    options = "--verify-key", public, "--seal", str(seals)
    assert both_ways(site, capsys, *options)[0] == 0
    with site.client() as client:
        client.append("assignments", b"x", b"{}", partition=0)
    assert both_ways(site, capsys, *options)[0] == 1


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_processes_that_makes_no_sense(site: Site, jobs: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        site("audit", "--jobs", jobs)
    assert end.value.code == 2
    assert "argument --jobs: " in capsys.readouterr().err
