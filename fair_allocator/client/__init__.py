"""The client: ask a running allocator for arms over HTTP, and send it their rewards.

>>> with FakeAllocator({"tasks": ["ann", "bob"]}) as allocator:  # or Allocator("http://...")
...     task = allocator.assign("tasks")
...     recorded = allocator.reward("tasks", task.request_id, 0.8)
>>> task.arm
'ann'

The client needs httpx, and nothing else from this package. So it is also a small distribution of
its own, `fair-allocator-client`, with the module `fair_allocator_client`.

allocator, async_allocator  the clients for applications: one blocks, the other is awaited
values, errors              arguments, results and errors of the calls
talks, exchange, reading    the calls without a transport: send, retry and read the answer
connection                  how the clients use httpx
watching, events            a stream of assignments, from server-sent events
fake, fake_server           an allocator in memory, for the tests of applications
"""

from .allocator import Allocator, Watch
from .async_allocator import AsyncAllocator, AsyncWatch
from .errors import (
    AllocatorError,
    BadAnswer,
    NotKnown,
    Refused,
    TooBusy,
    Unauthorised,
    Unreachable,
    Waiting,
)
from .fake import AsyncFakeAllocator, FakeAllocator
from .fake_server import FakeServer
from .values import Ask, Assignment, Decline, Pick, Recorded, Reward

__all__ = [
    "Allocator",
    "AllocatorError",
    "Ask",
    "Assignment",
    "AsyncAllocator",
    "AsyncFakeAllocator",
    "AsyncWatch",
    "BadAnswer",
    "Decline",
    "FakeAllocator",
    "FakeServer",
    "NotKnown",
    "Pick",
    "Recorded",
    "Refused",
    "Reward",
    "TooBusy",
    "Unauthorised",
    "Unreachable",
    "Waiting",
    "Watch",
]
