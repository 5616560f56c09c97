"""The allocator that blocks."""

import ssl
import time
from collections.abc import Collection, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from . import talks
from .connection import DEFAULT_URL, Connection, failure_of, head_of, reply_of
from .errors import AllocatorError
from .exchange import Call, Outcome, Pause, Retries, Talk
from .values import Ask, Assignment, Decline, Recorded, Reward, new_id
from .watching import Feed, Read

Result = TypeVar("Result")


class Allocator:
    """A client of a running allocator. Threads may share one; use it as a context manager.

    A call that gets no answer is made again, with the same request id and after growing pauses, so
    an arm is never given twice for it.

    Parameters
    ----------
    url
        Of `fair-allocator run` or of a gateway.
    token
        The bearer token, where the server wants one.
    timeout
        Seconds without a byte from the server, besides those that it was asked to wait, after
        which an attempt has failed.
    retries
        How often a call is made again if the server cannot be reached or is too busy.
    connections
        How many connections may be open at the same time.
    verify
        How the server's certificate is checked: a context for a certificate authority of your own.
    transport
        What carries the requests, if not the network.
    """

    _reconnects = True

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 5,
        connections: int = 100,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(url, token, timeout, connections, verify)
        self._retries = Retries(retries)
        self._http = httpx.Client(transport=transport, **self._connection.options())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- requests -----------------------------------------------------------------------------

    def assign(
        self,
        pool: str,
        *,
        request_id: str | None = None,
        eligible: Collection[str] | None = None,
        needs: str | None = None,
        slots: int | None = None,
        wait: float = 10.0,
    ) -> Assignment:
        """Ask a pool for an arm, or for several; return when the answer is durable.

        Parameters
        ----------
        pool
            The pool's name.
        request_id
            A name for the request; the same one always gets the first answer. A new one is made
            if it is left out.
        eligible
            The arms that can take it; any arm if neither this nor `needs` is given.
        needs
            The tags that an arm must have to take it, such as "french & !trainee".
        slots
            How many different arms it wants; 1 if left out.
        wait
            Seconds to wait for the answer.

        Raises
        ------
        Waiting
            If there is no answer after `wait` seconds; the request stays recorded.
        Refused
            If the pool does not serve such a request.
        """
        ask = Ask(pool, request_id or new_id(), eligible, needs, slots)
        return self._run(talks.assign(ask, wait, self._retries))

    def find(self, pool: str, request_id: str, wait: float = 0.0) -> Assignment:
        """Return the answer to an earlier request.

        Raises
        ------
        Waiting
            If there is none after `wait` seconds.
        NotKnown
            If the server does not know the request.
        """
        return self._run(talks.find(pool, request_id, wait, self._retries))

    def assign_many(
        self, asks: Iterable[Ask], *, wait: float = 10.0
    ) -> list[Assignment | AllocatorError]:
        """Ask for arms in one call, at most 1,000; return an answer or an error for each."""
        return self._run(talks.assign_many(asks, wait, self._retries))

    # -- what is recorded ---------------------------------------------------------------------

    def reward(self, pool: str, request_id: str, value: float, arm: str | None = None) -> Recorded:
        """Tell how well an assignment went, from 0 to 1; return when that is durable.

        Name the arm where the request was given to several.
        """
        return self._run(talks.reward(Reward(pool, request_id, value, arm), self._retries))

    def decline(self, pool: str, request_id: str, arm: str | None = None) -> Recorded:
        """Tell that an arm does not take its assignment; return when that is durable.

        Name the arm where you can: without it, a decline that got no answer is not sent again.
        """
        return self._run(talks.decline(Decline(pool, request_id, arm), self._retries))

    def reward_many(self, rewards: Iterable[Reward]) -> list[Recorded | AllocatorError]:
        """Send rewards in one call, at most 1,000; return a place or an error for each."""
        return self._run(talks.reward_many(rewards, self._retries))

    def decline_many(self, declines: Iterable[Decline]) -> list[Recorded | AllocatorError]:
        """Send declines in one call, at most 1,000; return a place or an error for each."""
        return self._run(talks.decline_many(declines, self._retries))

    def control(self, pool: str, action: str, **fields: Any) -> Recorded:
        """Change a pool, such as `control("tasks", "sleep", arms=["ann"])`.

        The token needs the right `control`.
        """
        return self._run(talks.control(pool, action, fields, self._retries))

    # -- looking ------------------------------------------------------------------------------

    def watch(self, pool: str | None = None, *, after: str | None = None) -> "Watch":
        """Follow the assignments of a pool, or of all pools, as they are committed.

        It begins now, or right after an earlier watch's `last_id`.
        """
        feed = Feed(pool, after, self._retries, self._reconnects)
        return Watch(self._http, self._connection, feed)

    def pools(self, search: str = "", page: int = 1) -> dict[str, Any]:
        """Return where the pools stand, as JSON: what the page shows, a page at a time."""
        return self._run(talks.pools(search, page, self._retries))

    def pool(self, name: str, page: int = 1) -> dict[str, Any]:
        """Return where a pool and its arms stand, as JSON: what the page shows of it."""
        return self._run(talks.pool(name, page, self._retries))

    # -- transport ----------------------------------------------------------------------------

    def _run(self, talk: Talk[Result]) -> Result:
        """Do what a talk wants until it has its result."""
        outcome: Outcome = None
        while True:
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                result: Result = end.value
                return result
            outcome = self._do(step)

    def _do(self, step: Call | Pause) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return reply_of(self._http.send(self._connection.request(self._http, step)))
        except httpx.TransportError as error:
            return failure_of(error)


class Watch(Iterator[Assignment]):
    """The assignments of a stream, without an end; lost connections are made again.

    As a context manager it is connected when the block begins, so that nothing that is committed
    within the block is missed, and closed when the block ends.
    """

    def __init__(self, http: httpx.Client, connection: Connection, feed: Feed) -> None:
        self._http = http
        self._connection = connection
        self._feed = feed
        self._response: httpx.Response | None = None
        self._data: Iterator[bytes] = iter(())

    @property
    def last_id(self) -> str | None:
        """The position of the last assignment, for `watch(after=...)`; None before the first."""
        return self._feed.last_id

    def __enter__(self) -> Self:
        while isinstance(step := self._feed.step(), Call | Pause):
            self._feed.done(self._do(step))
        if step is not None:
            self._feed.put_back(step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __next__(self) -> Assignment:
        while step := self._feed.step():
            if isinstance(step, Assignment):
                self._feed.done(None)
                return step
            self._feed.done(self._do(step))
        raise StopIteration

    def close(self) -> None:
        """Close the connection; the watch is over."""
        self._feed.close()
        self._hang_up()

    def _do(self, step: Call | Read | Pause) -> Outcome | bytes:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._open(step) if isinstance(step, Call) else next(self._data, None)
        except (httpx.TransportError, httpx.StreamError) as error:
            return failure_of(error)

    def _open(self, call: Call) -> Outcome:
        self._hang_up()
        request = self._connection.streamed(self._http, call)
        self._response = response = self._http.send(request, stream=True)
        if response.status_code != httpx.codes.OK:
            response.read()
            return reply_of(response)
        self._data = response.iter_bytes()
        return head_of(response)

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None
