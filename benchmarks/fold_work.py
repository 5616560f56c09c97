"""Fold (apply) requests and rewards in memory, for `benchmarks.fold`.

Run this file by its path. It then imports the build that PYTHONPATH names, and not the package
beside this folder:

    PYTHONPATH=build/compiled PYTHONSAFEPATH=1 python benchmarks/fold_work.py plain

It reads lines. For each line it folds `COUNT` requests and the rewards of all their arms, and
writes the microseconds of processor time for a request with its rewards. It also replays their
journal entries, and writes the microseconds for that. It works with 0.1.0 and all later versions,
but 0.1.0 only knows plain requests.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from fair_allocator.log.records import Record
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN, decode_chain
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.shard.shard import Shard

KINDS = ("plain", "named", "slots")
POOLS, ARMS, NAMED, SLOTS = 64, 10, 6, 3
COUNT, BATCH = 4_000, 500


class Work:
    """A shard in memory that gets one kind of requests, and another shard that replays its
    journal.
    """

    def __init__(self, kind: str) -> None:
        arms = {f"arm-{arm}": f"1/{2 * ARMS}" for arm in range(ARMS)}
        template: dict[str, Any] = {"arms": arms, "reward_timeout": 600.0}
        if kind != KINDS[0]:
            template["requests"] = "any"
        settings = ShardSettings(template=template, template_fingerprint="1")
        self._kind = kind
        self._shard, self._follower = Shard(0, settings), Shard(0, settings)
        self._rng = Random(1)
        self._asked = 0
        self._next = {"requests": 0, "rewards": 0}
        self._clock = 1_700_000_000_000
        self._seq, self._chain = 0, START_OF_CHAIN

    def turn(self) -> tuple[float, float]:
        """Return the microseconds of folding a request with its rewards, and of replaying it."""
        folded = replayed = 0.0
        for _ in range(COUNT // BATCH):
            requests = [self._request(number) for number in range(self._asked, self._asked + BATCH)]
            self._asked += BATCH
            took, outgoing = self._fold("requests", requests)
            folded += took
            replayed += self._replay(outgoing)
            took, outgoing = self._fold("rewards", list(_rewards(outgoing)))
            folded += took
            replayed += self._replay(outgoing)
        return folded / COUNT * 1e6, replayed / COUNT * 1e6

    def _request(self, number: int) -> dict[str, Any]:
        event: dict[str, Any] = {"request_id": f"r{number}", "pool": f"pool-{number % POOLS}"}
        if self._kind == "named":
            event["eligible"] = self._rng.sample([f"arm-{arm}" for arm in range(ARMS)], NAMED)
        elif self._kind == "slots":
            event["slots"] = SLOTS
        return event

    def _fold(self, topic: str, events: list[dict[str, Any]]) -> tuple[float, list[Any]]:
        """Fold events in one commit; return the seconds that it took, and the outgoing records."""
        first = self._next[topic]
        self._next[topic] += len(events)
        self._clock += 5
        records = [
            Record(topic, 0, offset, event["pool"].encode(), _json(event), self._clock)
            for offset, event in enumerate(events, first)
        ]
        return _timed(lambda: self._committed(records))

    def _committed(self, records: list[Record]) -> list[Any]:
        self._shard.fold(records, self._clock)
        return self._shard.cut()

    def _replay(self, outgoing: list[Any]) -> float:
        values = [(0, record.value) for record in outgoing if record.key == ENTRY]
        took, _ = _timed(lambda: self._follow(values))
        return took

    def _follow(self, values: list[tuple[int, bytes]]) -> None:
        for entry, chain in decode_chain(values, self._seq, self._chain, 0):
            self._follower.apply(entry, chain, {})
            self._seq, self._chain = entry.seq, chain


def _rewards(outgoing: list[Any]) -> Iterator[dict[str, Any]]:
    """Return a reward for every arm of the assignments."""
    for record in outgoing:
        event = json.loads(record.value) if record.topic == "assignments" else {}
        if event.get("type") != "assignment":
            continue
        reward = {"request_id": event["request_id"], "pool": event["pool"], "value": 0.5}
        if "others" not in event:
            yield reward
        else:
            for pick in (event, *event["others"]):
                yield {**reward, "arm": pick["arm"]}


def _json(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def main() -> None:
    work = Work(sys.argv[1])
    gc.collect()
    gc.freeze()
    for _ in sys.stdin:
        print(*work.turn(), flush=True)


if __name__ == "__main__":
    main()
