"""Bounded load: everything a service may be sent, by a thread of its own."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

from fair_allocator.errors import LogError
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import INPUTS, Incoming
from tests.crash.inputs import NAMES, POISON, arm_control, wishes

ARMS: Final[Sequence[dict[str, Any]]] = (
    {"a": "1/2", "b": "1/2"},
    {"a": "0.1", "b": 0, "d": "0.3"},
    {"a": "2/3"},
    {"a": 2},  # refused
)
REAL: Final = "crew"
"""The pool whose requests name arms and slots, and whose arms come and go."""

LEAST_BATCH: Final = 10
BATCHES_A_SECOND: Final = 50
"""How many records are sent at once: at least so many, and more if that is not often enough."""

KINDS: Final = ("requests", "rewards", "controls", "poison")
WEIGHTS: Final = (60, 35, 1, 1)


class Source(Protocol):
    """Whatever makes inputs."""

    def next(self) -> Incoming:
        """Return one more."""


class Requests:
    """Makes requests and nothing else, for one pool after the other."""

    def __init__(self, pools: Sequence[str]) -> None:
        self._pools = pools
        self._made = itertools.count()

    def next(self) -> Incoming:
        number = next(self._made)
        pool = self._pools[number % len(self._pools)]
        event = {"pool": pool, "request_id": f"r{number}"}
        return Incoming("requests", pool.encode(), json.dumps(event).encode())


class Inputs:
    """Makes inputs of every kind, the same ones from the same seed."""

    def __init__(self, rng: Random, pools: Sequence[str], partitions: int) -> None:
        self._rng = rng
        self._pools = pools
        self._partitions = partitions
        self._sent: list[tuple[str, str]] = []

    def next(self) -> Incoming:
        rng = self._rng
        kind = rng.choices(KINDS, WEIGHTS)[0]
        if kind == "poison":
            topic, partition = rng.choice(INPUTS), rng.randrange(self._partitions)
            return Incoming(topic, b"od-1", rng.choice(POISON), partition)
        pool = rng.choice(self._pools)
        event: dict[str, object] = {"pool": pool}
        if kind == "controls" and pool == REAL:
            event |= arm_control(rng)
        elif kind == "controls":
            event["action"] = rng.choice(("configure", "configure", "pause", "resume", "resume"))
            event["arms"] = rng.choice(ARMS)
        elif kind == "requests" and (not self._sent or rng.random() < 0.95):
            event["request_id"] = f"r{len(self._sent)}"
            if pool == REAL:
                event |= wishes(rng)
            self._sent.append((pool, f"r{len(self._sent)}"))
        else:
            pool, request_id = rng.choice(self._sent[-60:] or [("od-1", "r0")])
            event |= {"pool": pool, "request_id": request_id}
        if kind == "rewards" and pool == REAL:
            event["arm"] = rng.choice(NAMES[:4])
        if kind == "rewards" and pool == REAL and rng.random() < 0.3:
            event["type"] = "declined"
        elif kind == "rewards":
            event["value"] = rng.random()
        return Incoming(kind, pool.encode(), json.dumps(event).encode())


class Load:
    """Sends at least so many inputs at so many a second, or until it is told to stop.

    What the log does not take is sent again, and may then be there twice: the service has to
    bear that, too.
    """

    def __init__(
        self, client: Callable[[], LogClient], inputs: Source, most: int, per_second: float
    ) -> None:
        self.sent = 0
        self.requests = 0
        self.failures = 0
        self._client = client
        self._inputs = inputs
        self._most = most
        self._batch = max(LEAST_BATCH, round(per_second / BATCHES_A_SECOND))
        self._pause = self._batch / per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> "Load":
        self._thread.start()
        return self

    @property
    def is_done(self) -> bool:
        """Whether all is sent."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._client() as client:
            while self.sent < self._most and not self._stop.is_set():
                began = time.monotonic()
                batch = [self._inputs.next() for _ in range(self._batch)]
                self._send(client, batch)
                self.sent += len(batch)
                self.requests += sum(each.topic == "requests" for each in batch)
                self._stop.wait(max(0.0, began + self._pause - time.monotonic()))

    def _send(self, client: LogClient, batch: Sequence[Incoming]) -> None:
        while True:
            try:
                client.append_many(batch)
                return
            except LogError:
                self.failures += 1
                if self._stop.wait(0.2):
                    return
