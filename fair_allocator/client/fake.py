"""Fake allocators for the tests of applications: the real clients on a server in memory."""

from collections.abc import Iterable, Mapping

from .allocator import Allocator
from .async_allocator import AsyncAllocator
from .fake_server import FakeServer

Pools = Mapping[str, Iterable[str] | Mapping[str, Iterable[str]]]


class FakeAllocator(Allocator):
    """An `Allocator` in memory, for tests: create it with pools instead of an address.

    It is the real client, with a `FakeServer` in place of the network. The attribute `server` keeps
    all events that came in, and a test can tell it what to answer. No call waits: a request without
    an arm raises `Waiting` at once, and a watch ends after the last assignment.

    >>> fake = FakeAllocator({"tasks": ["ann", "bob"]})
    >>> fake.server.give_next("tasks", "bob")
    >>> fake.assign("tasks", request_id="r1").arm
    'bob'
    >>> place = fake.reward("tasks", "r1", 0.8)
    >>> fake.server.rewards
    [{'request_id': 'r1', 'value': 0.8, 'pool': 'tasks'}]
    """

    _reconnects = False

    def __init__(self, pools: Pools | FakeServer, *, retries: int = 0) -> None:
        self.server = pools if isinstance(pools, FakeServer) else FakeServer(pools)
        super().__init__("http://fake", retries=retries, transport=self.server.transport())


class AsyncFakeAllocator(AsyncAllocator):
    """An `AsyncAllocator` in memory, for tests: see `FakeAllocator`."""

    _reconnects = False

    def __init__(self, pools: Pools | FakeServer, *, retries: int = 0) -> None:
        self.server = pools if isinstance(pools, FakeServer) else FakeServer(pools)
        super().__init__("http://fake", retries=retries, transport=self.server.transport())
