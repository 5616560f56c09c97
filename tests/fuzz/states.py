"""States of pools and journals that were changed by hand: refused by name, or served fairly."""

import json
import warnings
from collections import Counter
from hashlib import blake2b
from random import Random
from typing import Any

from fair_allocator import AllBut, InvalidState, Pool
from fair_allocator.errors import JournalBroken
from fair_allocator.log.records import JOURNAL, Committed, Incoming, Record
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.shard import Shard, ShardSettings, restore
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN
from tests.fuzz.damage import damaged
from tests.fuzz.events import CONFIGURED, Events

ROUNDS = 30
"""Played from a state that was accepted."""


# -- states ---------------------------------------------------------------------------------------


def play_states(seed: int, inputs: int) -> Counter[str]:
    """Damage states of pools; what is accepted must keep its promise and say the same again."""
    rng, outcomes = Random(f"states {seed}"), Counter[str]()
    hosted = [json.loads(json.dumps(state)) for state in _hosted_states(seed)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of learners that know nonsense
        for _ in range(inputs):
            state = damaged(rng.choice(hosted), rng)
            try:
                pool = HostedPool.from_state(state, 0).pool
            except InvalidState:
                outcomes["refused"] += 1
                continue
            outcomes["accepted"] += 1
            go_on(pool, rng)
    return outcomes


def go_on(pool: Pool, rng: Random) -> None:
    """Play some rounds of a pool from a state that was accepted."""
    again = Pool.from_state(json.loads(json.dumps(pool.state())), stand_in=True)
    assert again.state() == pool.state()
    for number in range(ROUNDS):
        try:
            if pool.requests == "any":
                names = rng.sample(pool.arms, rng.randint(1, pool.size))
                pool.assign(f"new {number}", rng.choice((None, names, AllBut(names[1:]))))
            else:
                pool.assign(f"new {number}")
        except ValueError:
            pass  # nobody is free
        bound = pool.guarantee.bound
        assert bound is None or pool.violation() <= bound, "the promise is broken"


def _hosted_states(seed: int) -> list[dict[str, Any]]:
    service = _Served(seed)
    table = service.service.shards[0].table
    return [table.pools[name].state() for name in sorted(table.pools)]


def served_shard(seed: int) -> Shard:
    """Return a shard that has seen a few hundred inputs."""
    return _Served(seed).service.shards[0]


# -- journals -------------------------------------------------------------------------------------


def play_journals(seed: int, inputs: int) -> Counter[str]:
    """Damage entries of a journal and chain them anew: a restore refuses them, or takes them."""
    rng, outcomes = Random(f"journals {seed}"), Counter[str]()
    served = _Served(seed)
    journal = [r for r in served.client.read(JOURNAL, 0) if r.key == ENTRY]
    bodies = [(record.value or b"").split(b" ", 2)[2] for record in journal]
    settings = served.settings.shard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(inputs):
            place = rng.randrange(len(bodies))
            forged = [*bodies[: place + 3]]
            body = damaged(json.loads(bodies[place]), rng)
            forged[place] = json.dumps(body).encode()
            try:
                shard, _ = restore(_Forged(forged), 0, settings, only_look=True)
            except JournalBroken:
                outcomes["refused"] += 1
                continue
            outcomes["accepted"] += 1
            for hosted in shard.table.pools.values():
                hosted.pool.violation()
    return outcomes


class _Forged:
    """A journal of entries with a chain that fits."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._records: list[Record] = []
        chain = START_OF_CHAIN
        for seq, body in enumerate(bodies, start=1):
            whole = b"%s %d " % (chain.encode(), seq) + body
            chain = blake2b(whole, digest_size=16).hexdigest()
            value = b"%s %d %s" % (chain.encode(), seq, body)
            self._records.append(Record(JOURNAL, 0, seq - 1, ENTRY, value, 0))

    def committed(self, partition: int) -> Committed:
        return Committed({}, "")

    def journal_start(self, partition: int) -> int:
        return 0

    def read_journal(self, partition: int, start: int) -> Any:
        return iter(self._records)


class _Served:
    """A service that has seen a few hundred inputs."""

    def __init__(self, seed: int) -> None:
        memory, events = Memory(), Events(Random(seed))
        pools = {name: FilePool(pool, name) for name, pool in CONFIGURED.items()}
        shard = ShardSettings(partitioner="murmur2", remembered_per_pool=20, pending_per_pool=40)
        self.settings = ServiceSettings(shard=shard, pools=pools, poll_seconds=0)
        self.client, log = SqliteClient(memory, 1), SqliteLog(memory)
        self.service = Service(log, self.settings, sleep=lambda _: None)
        log.open(self.service)
        for _ in range(12):
            self.client.append_many(
                Incoming(topic, key, value, 0)
                for topic, key, value in (events.record() for _ in range(40))
            )
            self.service.step()
