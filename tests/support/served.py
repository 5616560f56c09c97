"""A service on a log in memory. Its clock moves only when the test moves it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from fair_allocator.core.pool import Pool
from fair_allocator.events import DeadLetter
from fair_allocator.log import Headers
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.service.probe import Probe
from fair_allocator.shard import Shard, ShardSettings, restore
from fair_allocator.shard.settings import Tally
from fair_allocator.shard.table import PoolTable

START: Final = 1_700_000_000_000
ARMS: Final[dict[str, str | int]] = {"a": "1/2", "b": "1/4", "c": 0}


class Ignored(Probe):
    """Counts the rewards that were not counted, by reason."""

    def __init__(self) -> None:
        self.rewards: Counter[str] = Counter()

    def counted(self, tally: Tally) -> None:
        self.rewards += tally.rewards_ignored


class Served:
    """Serves the inputs that a test sends, turn by turn. Times are in seconds since the start.

    After every turn, the shards are compared with shards restored from the journal.
    """

    def __init__(
        self,
        pools: dict[str, dict[str, Any]] | None = None,
        *,
        partitions: int = 1,
        fingerprint: str = "1",
        service: dict[str, Any] | None = None,
        **shard: Any,
    ) -> None:
        self.now = 0.0
        self.ignored = Ignored()
        self.memory = Memory()
        self.client = SqliteClient(self.memory, partitions)
        self.settings = ServiceSettings(
            shard=ShardSettings(partitions=partitions, **shard), poll_seconds=0, **(service or {})
        )
        self._log: SqliteLog | None = None
        self.restart(pools, fingerprint)

    def restart(
        self,
        pools: dict[str, dict[str, Any]] | None = None,
        fingerprint: str = "1",
        **shard: Any,
    ) -> None:
        """Stop without a snapshot, and start again, perhaps with other settings."""
        self.die()
        self.settings = replace(self.settings, shard=replace(self.settings.shard, **shard))
        if pools is not None:
            file = {name: FilePool(settings, fingerprint) for name, settings in pools.items()}
            self.settings = replace(self.settings, pools=file)
        self._log = SqliteLog(self.memory)
        self.service = Service(
            self._log,
            self.settings,
            wall=lambda: START / 1000 + self.now,
            monotonic=lambda: self.now,
            sleep=lambda _: None,
            probe=self.ignored,
        )
        self._log.open(self.service)
        self.turn()

    def die(self) -> None:
        if self._log is not None:
            self._log.close()

    # -- in -----------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = b"p",
        at: float | None = None,
        partition: int | None = 0,
        headers: Headers = (),
    ) -> int:
        """Append a record with exactly this key and value; return its offset."""
        moment = self.now if at is None else at
        stamp = START + round(moment * 1000)
        return self.client.append(
            topic, key, value, partition=partition, timestamp=stamp, headers=headers
        )[1]

    def _send(
        self,
        topic: str,
        pool: str,
        at: float | None,
        event: dict[str, Any],
        headers: Headers = (),
    ) -> None:
        value = json.dumps({"pool": pool, **event}).encode()
        self.send(topic, value, pool.encode(), at, partition=None, headers=headers)

    def request(
        self,
        request_id: str,
        pool: str = "p",
        at: float | None = None,
        headers: Headers = (),
        **more: Any,
    ) -> None:
        self._send("requests", pool, at, {"request_id": request_id, **more}, headers)

    def reward(
        self,
        request_id: str,
        value: float,
        pool: str = "p",
        at: float | None = None,
        **more: Any,
    ) -> None:
        self._send("rewards", pool, at, {"request_id": request_id, "value": value, **more})

    def decline(
        self, request_id: str, pool: str = "p", at: float | None = None, **more: Any
    ) -> None:
        self._send("rewards", pool, at, {"type": "declined", "request_id": request_id, **more})

    def control(
        self, action: str, pool: str = "p", at: float | None = None, **settings: Any
    ) -> None:
        self._send("controls", pool, at, {"action": action, **settings})

    # -- time ---------------------------------------------------------------------------------

    def turn(self, now: float | None = None) -> None:
        """Let the service read and decide everything that was sent."""
        self.now = self.now if now is None else now
        self.service.step()
        for partition, shard in self.service.shards.items():
            assert self._log is not None
            restored, _ = restore(self._log, partition, self.settings.shard)
            assert restored.canonical() == shard.canonical()
            restored.table.make_some(len(restored.table))
            assert restored.canonical() == shard.canonical()
            if self.settings.shard.retire_after is None:
                assert memory_of(restored.table) == memory_of(shard.table)

    def serve(self, *request_ids: str, pool: str = "p", at: float | None = None) -> list[str]:
        """Send requests and let the service decide them; return their arms."""
        before = len(self.out("assignment"))
        for request_id in request_ids:
            self.request(request_id, pool, at)
        self.turn()
        return [event["arm"] for event in self.out("assignment")[before:]]

    # -- out ----------------------------------------------------------------------------------

    def out(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the events of the assignments topic: those of one kind, or all if `kind` is
        None.
        """
        events = [
            json.loads(record.value or b"")
            for partition in range(self.client.partitions)
            for record in self.client.read("assignments", partition)
        ]
        return [event for event in events if kind in (None, event["type"])]

    def letters(self) -> list[DeadLetter]:
        return [
            DeadLetter.model_validate_json(record.value or b"")
            for partition in range(self.client.partitions)
            for record in self.client.read("dead-letters", partition)
        ]

    def reasons(self) -> list[str]:
        return [letter.reason.value for letter in self.letters()]

    @property
    def shard(self) -> Shard:
        return self.service.shards[0]

    def pool(self, name: str = "p") -> Pool:
        hosted = self.shard.table.hosted(name)
        assert hosted is not None
        return hosted.pool

    def observed(self, name: str = "p") -> int:
        """Return how many rewards a pool has counted."""
        return sum(self.pool(name).observed.values())

    def pending(self, name: str = "p") -> int:
        return sum(self.pool(name).pending.values())

    def state(self) -> bytes:
        """Return the whole state, without the number of journal entries."""
        return self.shard.canonical().partition(b",")[2]


def memory_of(table: PoolTable) -> tuple[int, int, int]:
    """Return the estimated memory: in all, of pools on demand, and of these without requests.

    A pool that was retired takes less than the same pool after a restore.
    """
    return table.memory.taken, table.memory.on_demand, table.memory.pools


House = Callable[..., Served]


@contextmanager
def houses() -> Iterator[House]:
    """Yield a function that starts services. All of them end with the block."""
    made: list[Served] = []

    def build(*arguments: Any, **settings: Any) -> Served:
        made.append(Served(*arguments, **settings))
        return made[-1]

    try:
        yield build
    finally:
        for served in made:
            served.die()
