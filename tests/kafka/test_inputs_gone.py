"""Inputs that are deleted before they were read: a stop that names the way out, never a skip."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.errors import OffsetGone
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, KafkaSettings, driver, log
from fair_allocator.log.kafka.driver import Admin, Appended, Edge
from fair_allocator.log.kafka.positions import passed_over
from fair_allocator.service import Service
from fair_allocator.wiring import open_client, open_log, service_settings
from fair_allocator.wiring.kafka import kafka_settings
from tests.conformance.conftest import PATIENCE_SECONDS
from tests.kafka.test_commands import configured, rounds, serve
from tests.support.pace import deadline, scaled

PLACE = "requests", 0
READ, DELETED, LEFT = 20, 3, 7
"""How many requests were decided, then deleted unread, and are left behind these."""

WAY_OUT = "move the state there with `fair-allocator export` and `import`"

pytestmark = [
    pytest.mark.parametrize("client", CLIENTS),
    pytest.mark.parametrize("delivery", DELIVERIES),
]


def requests(first: int, count: int) -> list[bytes]:
    return [
        json.dumps({"request_id": f"r{n}", "pool": f"p{n % 5}"}).encode()
        for n in range(first, first + count)
    ]


@dataclass
class Site:
    """A log that was served, and who may delete its inputs."""

    client: str
    file: Path
    admin: Admin

    @property
    def settings(self) -> KafkaSettings:
        return kafka_settings(load(self.file, {}))

    def command(self, *arguments: str) -> int:
        return main([*arguments, "--config", str(self.file)])

    def service(self, **more: bool) -> Service:
        configuration = load(self.file, {})
        return Service(open_log(configuration), service_settings(configuration, 1, **more))

    def decided(self) -> int:
        return self.admin.offsets([("assignments", 0)], Edge.END)["assignments", 0]

    def end(self) -> int:
        return self.admin.offsets([PLACE], Edge.END)[PLACE]

    def noted(self) -> int:
        """Return up to where the group knows that nothing is to be read."""
        return passed_over(self.admin.stored([PLACE])).get(PLACE, range(0)).stop

    def delete_all(self) -> None:
        self.admin.delete_before({PLACE: self.end()})

    def left(self) -> list[bytes]:
        """Return what is left of the requests."""
        with closing(open_client(load(self.file, {}))) as client:
            return [record.value or b"" for record in client.read(*PLACE)]


@pytest.fixture
def make(
    client: str, delivery: str, broker: str, tmp_path: Path
) -> Iterator[Callable[[int], Site]]:
    admins: list[Admin] = []

    def make(partitions: int) -> Site:
        file = configured(tmp_path, client, broker, partitions, delivery)
        admins.append(driver(client, kafka_settings(load(file, {}))).admin())
        site = Site(client, file, admins[-1])
        assert site.command("topics", "--create") == 0
        return site

    yield make
    for admin in admins:
        admin.close()


@pytest.fixture
def site(make: Callable[[int], Site], tmp_path: Path) -> Site:
    """A log of one partition where some requests were decided, and the service was stopped."""
    site = make(1)
    send(site, requests(0, READ), tmp_path)
    serve(site.file, READ)
    return site


def send(site: Site, events: list[bytes], folder: Path) -> None:
    file = folder / "events.ndjson"
    file.write_bytes(b"".join(event + b"\n" for event in events))
    assert site.command("send", "requests", "--ndjson", str(file)) == 0


def assert_told(stop: OffsetGone, site: Site) -> None:
    name = site.settings.topics["requests"]
    end = READ + DELETED + LEFT
    held = f"there is no position {READ}: it has positions from {READ + DELETED} to {end}"
    assert f"requests/0 ({name}): {held}" in str(stop)
    assert WAY_OUT in str(stop)
    assert stop.exit_code == 70


def test_a_start_stops_and_the_state_goes_on_elsewhere_with_what_is_left(
    delivery: str,
    site: Site,
    make: Callable[[int], Site],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    send(site, requests(READ, DELETED + LEFT), tmp_path)
    site.admin.delete_before({PLACE: READ + DELETED})
    before = site.decided()
    for accept_offsets in (False, True):
        with pytest.raises(OffsetGone) as stopped:
            site.service(accept_offsets=accept_offsets).run()
        assert_told(stopped.value, site)
    assert site.decided() == before
    capsys.readouterr()
    assert site.command("topics") == (1 if delivery == "exactly_once" else 0)
    assert WAY_OUT in capsys.readouterr().out

    state, elsewhere = tmp_path / "state.ndjson", make(2)
    assert site.command("export", "--out", str(state)) == 0
    assert elsewhere.command("import", str(state)) == 0
    left = site.left()
    assert left == requests(READ + DELETED, LEFT)
    send(elsewhere, left, tmp_path)
    serve(elsewhere.file, READ + LEFT)
    assert elsewhere.command("audit", "--partial") == 0


def test_inputs_that_were_deleted_after_they_were_read_are_missed_by_nobody(
    site: Site, tmp_path: Path
) -> None:
    """Several times, for a client may begin to read before it is told where to."""
    site.admin.delete_before({PLACE: READ})
    for number in range(8):
        send(site, requests(READ + number, 1), tmp_path)
        serve(site.file, READ + number + 1)


def test_a_service_that_runs_stops(site: Site) -> None:
    """In a transaction that is open, so that no client can have read them in advance."""
    service = site.service()
    before = site.decided()
    # The broker must not end it meanwhile: that would take a position, too.
    lasting = replace(site.settings, transaction_seconds=scaled(60))
    with (
        closing(service.log),
        closing(
            driver(site.client, lasting).transactions(f"{site.settings.group}-other")
        ) as others,
    ):
        service.log.open(service)
        stepped(service, lambda: rounds(service) == READ)
        others.begin()
        others.write([Appended(*PLACE, None, v) for v in requests(READ, DELETED + LEFT)])
        site.admin.delete_before({PLACE: READ + DELETED})
        with pytest.raises(OffsetGone) as stopped:
            stepped(service, lambda: False)
        assert_told(stopped.value, site)
    assert site.decided() == before


def test_the_end_of_a_transaction_is_nothing_that_was_to_be_read(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes a position behind the last record, and goes with it when retention deletes both."""
    monkeypatch.setattr(log, "PASSING_SECONDS", 0.0)
    send_in_transaction(site, requests(READ, LEFT))
    serve_to_the_end(site, READ + LEFT)
    site.delete_all()
    capsys.readouterr()
    assert site.command("topics") == 0, capsys.readouterr().out
    for _ in range(3):
        send_in_transaction(site, requests(0, 3), abort=True)
        serve_to_the_end(site, READ + LEFT)
        site.delete_all()
    send(site, requests(READ + LEFT, 1), tmp_path)
    serve(site.file, READ + LEFT + 1)


def test_a_record_behind_the_end_of_a_transaction_was(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "PASSING_SECONDS", 0.0)
    send_in_transaction(site, requests(READ, LEFT))
    serve_to_the_end(site, READ + LEFT)
    send(site, requests(READ + LEFT, 1), tmp_path)
    site.delete_all()
    with pytest.raises(OffsetGone, match=f"no position {READ + LEFT}: it has"):
        site.service().run()


def serve_to_the_end(site: Site, expected: int) -> None:
    """Serve until it is noted that nothing is left to be read, ends of transactions included."""
    service, end = site.service(), site.end()
    with closing(service.log):
        service.log.open(service)
        stepped(service, lambda: site.noted() == end)
        assert rounds(service) == expected


def send_in_transaction(site: Site, events: list[bytes], *, abort: bool = False) -> None:
    records = [Appended(*PLACE, json.loads(e)["pool"].encode(), e) for e in events]
    make = partial(driver(site.client, site.settings).transactions, f"{site.settings.group}-other")
    with closing(make()) as others:
        others.begin()
        others.write(records)
        if not abort:
            others.end()
    make().close()  # which ends what was left open


def stepped(service: Service, condition: Callable[[], bool]) -> None:
    limit = deadline(PATIENCE_SECONDS)
    while not condition():
        assert time.monotonic() < limit
        service.step()
