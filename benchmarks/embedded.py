"""Compare the service on the embedded log with loops that only copy records, in one run.

    python -m benchmarks.embedded [--quick]

The service and the loops read the same requests and rewards from a SQLite log on this disk. In a
poll they read at most as many records as the service does by default. After every poll they commit
their output and the offsets of the inputs. The copy loops do not parse records and have no state.
One copies every record, and the other copies only the requests. The service commits an assignment
for each request, which is several times as long as the request. It also commits a journal entry for
each partition, with the rewards in it. The seconds are those of the clock, and include the time of
waiting for the disk. The processor time does not include it.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.timing import table
from fair_allocator.core import FORM
from fair_allocator.log.base import Log
from fair_allocator.log.records import INPUTS, Incoming, Outgoing
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.service import Service, ServiceSettings, calm_collector
from fair_allocator.shard import ShardSettings, restore

PARTITIONS, FED = 4, 1_000
BATCH = ServiceSettings().batch_records
SERVICE = "the service decides"


def settings(arms: int) -> ServiceSettings:
    template = {"arms": {f"arm-{i}": f"1/{2 * arms}" for i in range(arms)}, "reward_timeout": 600.0}
    shard = ShardSettings(
        partitions=PARTITIONS, template=template, template_fingerprint="1", pending_per_pool=10**7
    )
    return ServiceSettings(shard=shard, batch_records=BATCH, poll_seconds=0.01)


def feed(path: Path, first: int, count: int, pools: int) -> None:
    """Append requests and a reward for each, in batches of a thousand requests or rewards."""
    with SqliteClient(path, PARTITIONS) as client:
        for begin in range(first, first + count, FED):
            numbers = range(begin, min(begin + FED, first + count))
            names = [f"pool-{number % pools}" for number in numbers]
            events = list(zip(numbers, names, strict=True))
            client.append_many(
                Incoming("requests", name.encode(), _json(request_id=f"r{number}", pool=name))
                for number, name in events
            )
            client.append_many(
                Incoming(
                    "rewards", name.encode(), _json(request_id=f"r{number}", pool=name, value=0.5)
                )
                for number, name in events
            )


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


class Weighed(SqliteLog):
    """A log that counts the bytes of all committed records, including snapshots and what is
    trimmed.
    """

    written = 0

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        self._weigh(outgoing)
        super().send_ahead(outgoing)

    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        self._weigh(outgoing)
        return super().commit(outgoing, offsets, hints)

    def _weigh(self, outgoing: Sequence[Outgoing]) -> None:
        self.written += sum(len(each.key or b"") + len(each.value or b"") for each in outgoing)


class Copying:
    """Reads all inputs, and copies the records of some topics to the assignments topic."""

    def __init__(self, log: Log, copied: Sequence[str]) -> None:
        self._log = log
        self._copied = copied
        self._offsets: dict[tuple[str, int], int] = {}

    def gained(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._log.seek(partition, {})

    def losing(self, partitions: Sequence[int]) -> None:
        pass

    def lost(self, partitions: Sequence[int]) -> None:
        pass

    def step(self) -> None:
        records = self._log.poll(0.01, BATCH)
        outgoing = [
            Outgoing("assignments", record.partition, record.key, record.value)
            for record in records
            if record.topic in self._copied
        ]
        for record in records:
            self._offsets[record.topic, record.partition] = record.offset + 1
        if records:
            self._log.commit(outgoing, self._offsets, {})


def drained(log: SqliteLog, path: Path, step: Callable[[], None]) -> float:
    """Call `step` until all inputs are committed; return the seconds that it took."""
    with SqliteClient(path) as client:
        ends = {(t, p): client.end_offset(t, p) for t in INPUTS for p in range(PARTITIONS)}
    began = time.perf_counter()
    while any(log.committed(p).offsets.get(t, 0) < end for (t, p), end in ends.items()):
        step()
    return time.perf_counter() - began


@dataclass
class Contestant:
    """One loop on its own log, and its times in every turn."""

    path: Path
    log: Weighed
    step: Callable[[], None]
    speeds: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def play(self, first: int, count: int, pools: int) -> None:
        feed(self.path, first, count, pools)
        used = time.process_time()
        self.speeds.append(count / drained(self.log, self.path, self.step))
        self.costs.append((time.process_time() - used) / count * 1e6)


def contestants(folder: Path, arms: int) -> Iterator[tuple[str, Contestant]]:
    for name, copied in (
        ("copies every record", ("requests", "rewards")),
        ("copies the requests", ("requests",)),
        (SERVICE, ()),
    ):
        path = folder / f"{name}.db"
        log = Weighed(path, PARTITIONS)
        loop = Copying(log, copied) if copied else Service(log, settings(arms))
        log.open(loop)
        yield name, Contestant(path, log, loop.step)


def throughput(arms: int, pools: int, count: int, turns: int) -> list[list[object]]:
    with tempfile.TemporaryDirectory() as folder:
        loops = dict(contestants(Path(folder), arms))
        # The first turn creates the pools and is not counted.
        for turn in range(turns + 1):
            for loop in loops.values():
                loop.play(turn * count, count, pools)
        for loop in loops.values():
            loop.log.close()
    rows: list[list[object]] = []
    for name, loop in loops.items():
        pairs = zip(loops[SERVICE].speeds[1:], loop.speeds[1:], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        rows.append(
            [
                f"{pools} pools of {arms:,} arms",
                name,
                f"{statistics.median(loop.speeds[1:]):,.0f}",
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
                f"{statistics.median(loop.costs[1:]):.1f}",
                f"{loop.log.written / (count * (turns + 1)):,.0f}",
            ]
        )
    return rows


def restoring(pools: int, opened: int, *, snapshot: bool) -> list[object]:
    """Restore four shards from journal entries or from a snapshot. The pools have ten arms."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.db")
        log = SqliteLog(path, PARTITIONS)
        chosen = settings(10)
        service = Service(log, chosen if snapshot else replace(chosen, snapshot_entries=10**9))
        log.open(service)
        with SqliteClient(path, PARTITIONS) as client:
            for begin in range(0, opened, FED):
                names = [f"pool-{n % pools}" for n in range(begin, begin + FED)]
                client.append_many(
                    Incoming("requests", name.encode(), _json(request_id=f"r{n}", pool=name))
                    for n, name in enumerate(names, begin)
                )
        drained(log, path, service.step)
        if snapshot:
            service.drain()
        journal = sum(
            len(r.value or b"") for p in range(PARTITIONS) for r in log.read_journal(p, 0)
        )
        began = time.perf_counter()
        for partition in range(PARTITIONS):
            restore(log, partition, chosen.shard)
        took = time.perf_counter() - began
        log.close()
    kind = "snapshot" if snapshot else "entries"
    return [f"{pools:,}", f"{opened:,}", kind, f"{journal / 1e6:,.1f}", f"{took:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer records and turns")
    quick = parser.parse_args().quick
    calm_collector()
    count, turns = (5_000, 2) if quick else (20_000, 5)
    rows: list[list[object]] = [
        ["", "loop", "requests/s", "service / it", "CPU us", "bytes written"]
    ]
    rows += throughput(10, 64, count, turns)
    rows += throughput(100_000, 1, count, turns)
    print(f"Ours is {FORM}. CPU time and bytes are for a request with its reward")
    print(table(rows))
    print("\nRestoring four shards")
    rows = [["pools", "open requests", "from", "MB of journal", "seconds"]]
    sizes = [(64, 10_000), (64, 100_000), (10_000, 10_000), (10_000, 100_000), (64, 1_000_000)]
    for pools, opened in sizes[:3] if quick else sizes:
        rows += [restoring(pools, opened, snapshot=how) for how in (False, True)]
    print(table(rows))


if __name__ == "__main__":
    main()
