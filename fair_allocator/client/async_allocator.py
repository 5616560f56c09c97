"""The client for asyncio. It differs from the blocking client only in how it sends bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Iterable
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


class AsyncAllocator:
    """A client of a running allocator, for asyncio. Tasks may share one; use `async with`.

    Parameters, results and errors are the same as those of `Allocator`.
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection(url, token, timeout, connections, verify)
        self._retries = Retries(retries)
        self._http = httpx.AsyncClient(transport=transport, **self._connection.options())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def assign(
        self,
        pool: str,
        *,
        request_id: str | None = None,
        eligible: Collection[str] | None = None,
        needs: str | None = None,
        slots: int | None = None,
        wait: float = 10.0,
    ) -> Assignment:
        """Ask a pool for one or more arms: see `Allocator.assign`."""
        ask = Ask(pool, request_id or new_id(), eligible, needs, slots)
        return await self._run(talks.assign(ask, wait, self._retries))

    async def find(self, pool: str, request_id: str, wait: float = 0.0) -> Assignment:
        """Return the answer to an earlier request: see `Allocator.find`."""
        return await self._run(talks.find(pool, request_id, wait, self._retries))

    async def assign_many(
        self, asks: Iterable[Ask], *, wait: float = 10.0
    ) -> list[Assignment | AllocatorError]:
        """Send at most 1,000 requests in one call; return an answer or an error for each."""
        return await self._run(talks.assign_many(asks, wait, self._retries))

    async def reward(
        self, pool: str, request_id: str, value: float, arm: str | None = None
    ) -> Recorded:
        """Send a reward from 0 to 1 for an assignment: see `Allocator.reward`."""
        return await self._run(talks.reward(Reward(pool, request_id, value, arm), self._retries))

    async def decline(self, pool: str, request_id: str, arm: str | None = None) -> Recorded:
        """Decline an assignment for its arm: see `Allocator.decline`."""
        return await self._run(talks.decline(Decline(pool, request_id, arm), self._retries))

    async def reward_many(self, rewards: Iterable[Reward]) -> list[Recorded | AllocatorError]:
        """Send at most 1,000 rewards in one call; return where each was recorded, or an error."""
        return await self._run(talks.reward_many(rewards, self._retries))

    async def decline_many(self, declines: Iterable[Decline]) -> list[Recorded | AllocatorError]:
        """Send at most 1,000 declines in one call; return where each was recorded, or an error."""
        return await self._run(talks.decline_many(declines, self._retries))

    async def control(self, pool: str, action: str, **fields: Any) -> Recorded:
        """Change a pool: see `Allocator.control`."""
        return await self._run(talks.control(pool, action, fields, self._retries))

    def watch(self, pool: str | None = None, *, after: str | None = None) -> "AsyncWatch":
        """Follow assignments as they are committed: see `Allocator.watch`."""
        feed = Feed(pool, after, self._retries, self._reconnects)
        return AsyncWatch(self._http, self._connection, feed)

    async def pools(self, search: str = "", page: int = 1) -> dict[str, Any]:
        """Return one page of pools with their figures, as JSON, like the live page shows them."""
        return await self._run(talks.pools(search, page, self._retries))

    async def pool(self, name: str, page: int = 1) -> dict[str, Any]:
        """Return the figures of a pool and its arms, as JSON, like the live page shows them."""
        return await self._run(talks.pool(name, page, self._retries))

    # -- transport ----------------------------------------------------------------------------

    async def _run(self, talk: Talk[Result]) -> Result:
        """Make the call that a talk describes, and return its result (see `exchange`)."""
        outcome: Outcome = None
        while True:
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                result: Result = end.value
                return result
            outcome = await self._do(step)

    async def _do(self, step: Call | Pause) -> Outcome:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return reply_of(await self._http.send(self._connection.request(self._http, step)))
        except httpx.TransportError as error:
            return failure_of(error)


class AsyncWatch(AsyncIterator[Assignment]):
    """An endless stream of assignments. It connects again if the connection is lost.

    With `async with`, it connects when the block begins, and closes when the block ends. So it
    misses no assignment that is committed within the block.
    """

    def __init__(self, http: httpx.AsyncClient, connection: Connection, feed: Feed) -> None:
        self._http = http
        self._connection = connection
        self._feed = feed
        self._response: httpx.Response | None = None
        self._data: AsyncIterator[bytes] | None = None

    @property
    def last_id(self) -> str | None:
        """The position of the last assignment, for `watch(after=...)`; None before the first."""
        return self._feed.last_id

    async def __aenter__(self) -> Self:
        while isinstance(step := self._feed.step(), Call | Pause):
            self._feed.done(await self._do(step))
        if step is not None:
            self._feed.put_back(step)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> Assignment:
        while step := self._feed.step():
            if isinstance(step, Assignment):
                self._feed.done(None)
                return step
            self._feed.done(await self._do(step))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the connection, and end the watch."""
        self._feed.close()
        await self._hang_up()

    async def _do(self, step: Call | Read | Pause) -> Outcome | bytes:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            if isinstance(step, Call):
                return await self._open(step)
            return None if self._data is None else await anext(self._data, None)
        except (httpx.TransportError, httpx.StreamError) as error:
            return failure_of(error)

    async def _open(self, call: Call) -> Outcome:
        await self._hang_up()
        request = self._connection.streamed(self._http, call)
        self._response = response = await self._http.send(request, stream=True)
        if response.status_code != httpx.codes.OK:
            await response.aread()
            return reply_of(response)
        self._data = response.aiter_bytes()
        return head_of(response)

    async def _hang_up(self) -> None:
        if self._response is not None:
            await self._response.aclose()
            self._response = None
