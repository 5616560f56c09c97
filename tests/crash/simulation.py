"""Crash simulation: one seed is one schedule of inputs, crashes, restarts and damage.

    python -m tests.crash.simulation --seed 7          one schedule again
    python -m tests.crash.simulation --first 0 --count 5000

After every commit the shard restored from the log must equal the live one byte for byte (I2), and
its hash chain must be that of the records in the topic; after the last, the topics are verified
(I1, I3, I4), and the same steps without the crashes must give the same records and state (I5).
"""

import argparse
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from fair_allocator.errors import JournalBroken
from fair_allocator.log.records import INPUTS, OUTPUTS, Committed, Headers, Record
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import Service
from fair_allocator.shard import Shard, chain, restore, snapshot
from tests.crash.damage import Journal, spoilt
from tests.crash.faulty_log import Crash, Faults, FaultyLog, Nobody, Poll, Step
from tests.crash.inputs import FUTURE, START, Plan, make_plan
from tests.support.chained import follow_chain, head_of
from tests.support.served import memory_of
from tests.support.verifier import Counts, require, verify


class Run:
    """A log in memory with a plan's inputs, and the time of day."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.memory = Memory()
        self.client = SqliteClient(self.memory, plan.partitions)
        self.client.append_many(plan.inputs)
        self.inputs = {
            (topic, partition): list(self.client.read(topic, partition))
            for topic in INPUTS
            for partition in range(plan.partitions)
        }
        self.everything = frozenset(range(plan.partitions))
        self.now = START
        self.version = 0

    def service(self, log: FaultyLog) -> Service:
        log.service = Service(
            log,
            self.plan.versions[self.version],
            wall=lambda: self.now / 1000,
            monotonic=lambda: 0.0,
            sleep=lambda _: None,
        )
        return log.service

    def restored(self, log: SqliteLog, partition: int) -> Shard:
        shard, _ = restore(log, partition, self.plan.versions[self.version].shard)
        return shard

    @contextmanager
    def opened(self) -> Iterator[SqliteLog]:
        """Hold the log without a service."""
        with SqliteLog(self.memory) as log:
            log.open(Nobody())
            yield log

    def states(self) -> dict[int, Shard]:
        """Return every shard as the journal has it."""
        with self.opened() as log:
            return {partition: self.restored(log, partition) for partition in self.everything}

    def outputs(self) -> dict[tuple[str, int], list[tuple[bytes | None, bytes | None, Headers]]]:
        return {
            (topic, partition): [
                (r.key, r.value, r.headers) for r in self.client.read(topic, partition)
            ]
            for topic in OUTPUTS
            for partition in self.everything
        }


class CrashedRun(Run):
    """Serves the inputs in a random order, dying and recovering on the way."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.rng = Random(-plan.seed - 1)
        rate = self.rng.choice((0.02, 0.05, 0.15))
        self.faults = Faults(self.rng, rate, crashes=self.rng.choice((2, 5, 10)))
        self.script: list[Step] = []
        self._damaged: set[int] = set()
        self._owned = self.everything
        self._idle = self.rng.randrange(3)
        total = sum(map(len, self.inputs.values()))
        places = sorted(self.rng.randrange(total + 1) for _ in plan.versions[1:])
        self._stops = [*places, total]

    def run(self) -> None:
        while self.version < len(self.plan.versions):
            log = FaultyLog(self.memory, self.faults, self._drive, self._committed_now)
            try:
                self.service(log).run()
                # Without shards its last commit failed, and what it was told may be in no journal.
                self.version += bool(log.service.shards)
            except Crash:
                log.inner.close()
                self.faults.hits["crashes"] += 1
                if self.rng.random() < 0.3:
                    self._damage()
        self.version -= 1

    def _damage(self) -> None:
        """Spoil a part of the newest generation, or its manifest, if that can be borne."""
        partition = self.rng.choice(sorted(self.everything))
        journal = Journal(self.memory, partition)
        whole = partition in self._damaged or journal.start == 0 or len(journal.generations()) > 1
        require(whole, "trimmed with one generation left on partition", partition)
        self._damaged.add(partition)
        if bearable := journal.bearable():
            record = self.rng.choice(bearable)
            value = spoilt(record.value or b"", self.rng)
            self.faults.hits["damaged " + ("manifest" if record is bearable[-1] else "part")] += 1
            journal.write(record._replace(value=value))

    # -- what is polled -----------------------------------------------------------------------

    def _drive(self, log: FaultyLog, limit: int) -> Poll:
        rng = self.rng
        if self._owned != self.everything and rng.random() < 0.5:
            self._owned = self.everything
        elif rng.random() < 0.06:
            self._owned = frozenset(p for p in self.everything if rng.random() < 0.5)
            self.faults.hits["rebalance"] += 1
        done = sum(log.positions.values()) if log.positions else 0
        stop = self._stops[self.version]
        if done >= stop and log.owned == self._owned == self.everything:
            if self._idle == 0 or self.version + 1 < len(self.plan.versions):
                log.service.stop()
                return Poll(self._owned, [])
            self._idle -= 1
            self.now += rng.choice((10, 700, 5_000))
            return Poll(self._owned, [])
        if rng.random() < 0.15:
            self.now += rng.choice((0, 100, 1_500))
            return Poll(self._owned, [])
        return Poll(self._owned, self._some(log, rng.randint(1, limit)))

    def _some(self, log: FaultyLog, limit: int) -> list[Record]:
        rng = self.rng
        places = {n: at for n, at in log.positions.items() if n[1] in self._owned & log.owned}
        chosen: list[Record] = []
        while len(chosen) < limit:
            heads = [self.inputs[n][at] for n, at in places.items() if at < len(self.inputs[n])]
            if not heads:
                break
            earliest = min(heads, key=lambda head: head.timestamp)
            record = earliest if rng.random() < 0.6 else rng.choice(heads)
            places[record.topic, record.partition] += 1
            if record.timestamp < FUTURE:
                self.now = max(self.now, record.timestamp + rng.choice((0, 0, 30)))
            chosen.append(record)
        return chosen

    # -- what is checked ----------------------------------------------------------------------

    def _committed_now(self, log: FaultyLog, partitions: Sequence[int]) -> None:
        if log.step is not None:
            self.script.append(Step(self.version, *log.step, self.now))
        self.faults.hits["commits"] += 1
        for partition in partitions:
            shard = log.service.shards[partition]
            live = shard.canonical()
            offsets = log.inner.committed(partition).offsets
            require(offsets == shard.offsets, "committed", offsets, "not", shard.offsets)
            again = self.restored(log.inner, partition)
            restored = again.canonical()
            require(restored == live, "I2: partition", partition, live, restored)
            again.table.make_some(len(again.table))
            require(again.canonical() == live, "I2: pools made from their bytes", partition)
            if self.plan.versions[self.version].shard.retire_after is None:
                taken, found = memory_of(shard.table), memory_of(again.table)
                require(taken == found, "memory: partition", partition, taken, found)
            head = head_of(shard)
            chained = follow_chain(self.client, partition, chain.CHECKPOINT_EVERY)
            require(chained == head, "the chain: partition", partition, chained, "not", head)
            if self.rng.random() < 0.1:
                hint = str(self.rng.choice(("", "?", -1, *range(0, 60, 7))))
                with patch.object(log.inner, "committed", return_value=Committed({}, hint)):
                    restored = self.restored(log.inner, partition).canonical()
                require(restored == live, "I2: with hint", hint, "partition", partition)
            if self.rng.random() < 0.2:
                self._spoil_entry(log.inner, partition, live)

    def _spoil_entry(self, log: SqliteLog, partition: int, live: bytes) -> None:
        """Damage an entry for a while: it is refused, or was not needed."""
        journal = Journal(self.memory, partition)
        entries = journal.entries()
        if not entries:
            return
        record = self.rng.choice((entries[-1], self.rng.choice(entries)))
        value = spoilt(record.value or b"", self.rng)
        with journal.damaged(record, value):
            try:
                found = self.restored(log, partition).canonical()
            except JournalBroken:
                self.faults.hits["entry refused"] += 1
            else:
                require(found == live, "a damaged entry was folded:", record, value)
                self.faults.hits["entry not needed"] += 1


class Replay(Run):
    """Serves the steps of another run, and nothing goes wrong."""

    def __init__(self, plan: Plan, script: list[Step]) -> None:
        super().__init__(plan)
        self._script = script

    def run(self) -> None:
        faults = Faults(Random(0))
        for version in range(len(self.plan.versions)):
            self.version = version
            self._steps = iter([step for step in self._script if step.version == version])
            self._next = next(self._steps, None)
            log = FaultyLog(self.memory, faults, self._drive, lambda _log, _partitions: None)
            self.service(log).run()

    def _drive(self, log: FaultyLog, limit: int) -> Poll:
        step, self._next = self._next, next(self._steps, None)
        if self._next is None:
            log.service.stop()
        if step is None:
            self.now = 0  # a tick now is no tick at all
            return Poll(self.everything, [])
        self.now = step.now
        return Poll(step.owned, step.records)


def counts_of(shards: dict[int, Shard]) -> Counts:
    counts: Counts = {}
    for shard in shards.values():
        for name in sorted(shard.table):  # to look at a retired pool brings it back
            hosted = shard.table.hosted(name)
            assert hosted is not None
            arms = hosted.pool._arms
            columns = zip(arms.pulls, arms.pending, arms.observed, arms.total, strict=True)
            counts[name] = dict(zip(arms.names, columns, strict=True))
    return counts


def _settled(shard: Shard) -> bytes:
    """Return a shard's canonical form without its number of entries, which crashes add to."""
    return shard.canonical().partition(b",")[2]


def simulate(seed: int) -> Counter[str]:
    """Play a seed's schedule; raise whatever is wrong with it."""
    plan = make_plan(seed)
    with (
        patch.object(snapshot, "POOLS_A_BUCKET", 32 if seed % 3 else 1),
        patch.object(chain, "CHECKPOINT_EVERY", 16 if seed % 3 else 8),
    ):
        crashed = CrashedRun(plan)
        crashed.run()
        counts = verify(crashed.client, plan.rules)
        states = crashed.states()
        require(counts == counts_of(states), "I3:", counts, counts_of(states))
        replay = Replay(plan, crashed.script)
        replay.run()
        for name, records in replay.outputs().items():
            require(records == crashed.outputs()[name], f"I5: {name} differs")
        for partition, shard in replay.states().items():
            require(_settled(shard) == _settled(states[partition]), f"I5: state {partition}")
    for event, headers in _assignments(crashed):
        crashed.faults.hits["ticks"] += event["type"] == "tick"
        late = event["type"] == "assignment" and "request_offset" in event
        crashed.faults.hits["late decisions with headers"] += late and bool(headers)
    letters = [r for (topic, _), some in crashed.outputs().items() if "dead" in topic for r in some]
    for reason in ("no-memory", "too-many-requests"):
        said = b'"reason":"%b"' % reason.encode()
        crashed.faults.hits[reason] += sum(said in (value or b"") for _, value, _ in letters)
    return crashed.faults.hits


def _assignments(run: Run) -> Iterator[tuple[dict[str, Any], Headers]]:
    for (topic, _), records in run.outputs().items():
        if topic == "assignments":
            for _, value, headers in records:
                yield json.loads(value or b""), headers


def main() -> None:
    parser = argparse.ArgumentParser(description="Play crash schedules.")
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    seeds = range(arguments.first, arguments.first + arguments.count)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    hits: Counter[str] = Counter()
    began = time.monotonic()
    for seed in seeds:
        try:
            hits += simulate(seed)
        except BaseException:
            print(f"seed {seed}: python -m tests.crash.simulation --seed {seed}")
            raise
    print(f"{len(seeds)} schedules in {time.monotonic() - began:.1f} s")
    for name, count in sorted(hits.items()):
        print(f"{count:8d}  {name}")


if __name__ == "__main__":
    main()
