"""Compare requests that name arms or slots with plain ones, in the service on the embedded log.

    python -m benchmarks.requests [--quick]

Three services take turns. Each has 64 pools of 10 arms, on a log of its own. The first gets plain
requests, the second gets requests that name 6 of the 10 arms, and the third gets requests that want
3 arms. In each turn a service gets requests and decides them. Then it gets a reward for every
assignment, and counts the rewards. Only the time of deciding and counting is measured. The ratios
compare times of the same turn.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.embedded import PARTITIONS, drained, settings
from benchmarks.timing import table
from fair_allocator.core import FORM
from fair_allocator.log.records import Incoming
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.service import Service, calm_collector

POOLS, ARMS, NAMED, SLOTS = 64, 10, 6, 3
KINDS = ("plain", f"{NAMED} of {ARMS} named", f"{SLOTS} slots")


@dataclass
class Asked:
    """A service that gets one kind of requests."""

    kind: str
    path: Path
    speeds: list[float] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        plain = settings(ARMS)
        template = dict(plain.shard.template or {})
        if self.kind != KINDS[0]:
            template["requests"] = "any"
        self._log = SqliteLog(self.path, PARTITIONS)
        self._service = Service(
            self._log, replace(plain, shard=replace(plain.shard, template=template))
        )
        self._log.open(self._service)
        self._read = dict.fromkeys(range(PARTITIONS), 0)
        self._rng = Random(1)

    def play(self, count: int) -> None:
        """Send this number of requests, and then a reward for every arm."""
        with SqliteClient(self.path, PARTITIONS) as client:
            client.append_many(self._request(self.asked + number) for number in range(count))
            self.asked += count
            took = drained(self._log, self.path, self._service.step)
            client.append_many(self._rewards(client))
            took += drained(self._log, self.path, self._service.step)
        self.speeds.append(count / took)

    def _request(self, number: int) -> Incoming:
        pool = f"pool-{number % POOLS}"
        event: dict[str, Any] = {"request_id": f"r{number}", "pool": pool}
        if self.kind == KINDS[1]:
            event["eligible"] = self._rng.sample([f"arm-{i}" for i in range(ARMS)], NAMED)
        elif self.kind == KINDS[2]:
            event["slots"] = SLOTS
        return Incoming("requests", pool.encode(), json.dumps(event).encode())

    def _rewards(self, client: SqliteClient) -> list[Incoming]:
        rewards = []
        for partition in range(PARTITIONS):
            for record in client.read("assignments", partition, self._read[partition]):
                self._read[partition] = record.offset + 1
                event = json.loads(record.value or b"")
                if event["type"] != "assignment":
                    continue
                others = event.get("others", ())
                for arm in (event["arm"], *(other["arm"] for other in others)):
                    reward = {"request_id": event["request_id"], "pool": event["pool"]}
                    reward |= {"value": 0.5, **({"arm": arm} if others else {})}
                    rewards.append(
                        Incoming("rewards", event["pool"].encode(), json.dumps(reward).encode())
                    )
        return rewards

    def close(self) -> None:
        self._log.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests and turns")
    count, turns = (4_000, 3) if parser.parse_args().quick else (20_000, 7)
    calm_collector()
    with tempfile.TemporaryDirectory() as folder:
        services = [Asked(kind, Path(folder, f"{place}.db")) for place, kind in enumerate(KINDS)]
        for _ in range(turns + 1):  # the first turn makes the pools and is not counted
            for service in services:
                service.play(count)
        for service in services:
            service.close()
    rows: list[list[object]] = [["requests", "a second", "of plain"]]
    for service in services:
        pairs = zip(service.speeds[1:], services[0].speeds[1:], strict=True)
        ratios = [ours / plain for ours, plain in pairs]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        rows.append([service.kind, f"{statistics.median(service.speeds[1:]):,.0f}", spread])
    print(f"Ours is {FORM}. {POOLS} pools of {ARMS} arms, each arm of a request is rewarded")
    print(table(rows))


if __name__ == "__main__":
    main()
