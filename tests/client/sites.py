"""What the conformance tests run against: allocators with the same pools, in memory and real."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator

from fair_allocator.client import Allocator, AsyncFakeAllocator, FakeAllocator, FakeServer
from tests.client.blocking import blocking

ARMS = {"ann": ["french"], "bob": ["french", "trainee"], "cyd": []}
ODD = "t ä/%2F?#&\"'\u2028 *"
"""A name that must be encoded wherever it goes."""

POOLS = [ODD, *(f"pool-{number}" for number in range(60))]
"""More than there are tests: each has one or two of its own."""


class Site(ABC):
    """An allocator, and how to reach it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def pool(self) -> str:
        """Return a pool that no other test has."""
        return f"pool-{next(self._numbers)}"

    @abstractmethod
    def client(self, kind: str) -> Allocator:
        """Return a client with every right; it blocks, or is an awaited one made to block."""


class InMemory(Site):
    def __init__(self) -> None:
        super().__init__()
        self._server = FakeServer(dict.fromkeys(POOLS, ARMS))

    def client(self, kind: str) -> Allocator:
        if kind == "sync":
            return FakeAllocator(self._server)
        return blocking(lambda: AsyncFakeAllocator(self._server))


def in_memory() -> Iterator[Site]:
    yield InMemory()
