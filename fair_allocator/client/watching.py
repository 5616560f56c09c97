"""A stream of assignments over several connections, independent of how bytes are sent.

A *talk* is a generator of steps that a client executes (see `exchange`).
"""

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from .errors import BadAnswer
from .events import EventReader, TooLong
from .exchange import Call, Failure, Outcome, Pause, Reply, Retries, passes, unanswered
from .reading import OK, error_of, read_event
from .talks import pool_path
from .values import Assignment


@dataclass(frozen=True, slots=True)
class Read:
    """A step: read more bytes of the stream that was opened last."""


Step = Call | Read | Pause | Assignment
Watching = Generator[Step, Outcome | bytes, None]
"""An endless talk.

It yields a `Call` to open a stream, `Read` for more bytes, and every `Assignment`.
"""


class Feed:
    """Holds the next step of a watch for the client, and the position in the stream."""

    def __init__(
        self, pool: str | None, after: str | None, retries: Retries, reconnect: bool
    ) -> None:
        self.last_id = after
        """The id of the last event, None before the first one."""
        self._talk = _watch(pool, self, retries, reconnect)
        self._outcome: Outcome | bytes = None
        self._next: Step | None = None

    def step(self) -> Step | None:
        """Return the next step, None at the end of the watch."""
        step, self._next = self._next, None
        return step or next_step(self._talk, self._outcome)

    def done(self, outcome: Outcome | bytes) -> None:
        """Receive the outcome of the last step."""
        self._outcome = outcome

    def put_back(self, step: Step) -> None:
        """Make a step the next one again."""
        self._next = step

    def close(self) -> None:
        """End the watch: there are no further steps."""
        self._talk.close()
        self._next = None


def next_step(talk: Watching, outcome: Outcome | bytes) -> Step | None:
    """Send an outcome to a talk; return its next step, None at its end."""
    try:
        return talk.send(outcome)
    except StopIteration:
        return None


def _watch(pool: str | None, feed: Feed, retries: Retries, reconnect: bool) -> Watching:
    """Follow assignments. If the connection is lost, connect again from the last event on.

    The first connection has as many retries as any call. Later connections are tried again until
    one works.
    """
    attempt = 0
    while True:
        call = _open(pool, feed.last_id)
        opened = yield call
        assert isinstance(opened, Reply | Failure)  # noqa: S101  (what a call leads to)
        if isinstance(opened, Reply) and not passes(opened):
            _check_stream(opened)
            if (yield from _follow(feed)):
                attempt = 0
            if not reconnect:
                return
            retries = replace(retries, times=inf)
            opened = Failure(EOFError("the stream ended"), sent=True)
        pause = retries.pause(attempt, opened)
        if pause is None:
            if isinstance(opened, Failure):
                raise unanswered(call, opened, attempt + 1) from opened.error
            raise error_of(opened)
        yield Pause(pause)
        attempt += 1


def _open(pool: str | None, last_id: str | None) -> Call:
    path = "/v1/assignments" if pool is None else pool_path(pool, "assignments")
    headers = {"Accept": "text/event-stream"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    return Call("GET", path, headers=headers)


def _check_stream(reply: Reply) -> None:
    if reply.status != OK:
        raise error_of(reply)
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        raise BadAnswer("the answer is no stream of events; is this a fair-allocator's address?")


def _follow(feed: Feed) -> Generator[Read | Assignment, Outcome | bytes, bool]:
    """Yield the assignments of a stream until it ends; return whether any data came."""
    reader = EventReader(feed.last_id)
    came = False
    while True:
        data = yield Read()
        if not isinstance(data, bytes):
            return came
        came = True
        try:
            events = list(reader.feed(data))
        except TooLong as error:
            raise BadAnswer(str(error)) from None
        for event in events:
            assignment = None if event.data is None else read_event(_decoded(event.data))
            # Set this before the yield: if the caller stops there, it has seen this assignment.
            feed.last_id = event.id
            if assignment is not None:
                yield assignment


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer(f"an event is not JSON: {text[:80]!r}") from None
