"""The client: ask a running allocator for arms over HTTP, and tell it how they did.

>>> with FakeAllocator({"tasks": ["ann", "bob"]}) as allocator:  # or Allocator("http://...")
...     task = allocator.assign("tasks")
...     recorded = allocator.reward("tasks", task.request_id, 0.8)
>>> task.arm
'ann'

It needs httpx and nothing else of this package, so that it is also a small distribution of its
own, `fair-allocator-client`, with the module `fair_allocator_client`.

allocator, async_allocator  what applications use: one blocks, the other one is awaited
values, errors              what goes in and comes out
talks, exchange, reading    the calls without their transport: what is sent, tried again and read
events                      server-sent events
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
