"""The client with blocking calls."""

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

    If a call gets no answer, the client makes it again with the same request id. The pauses between
    attempts grow. So a request never gets a second arm because of a retry.

    Parameters
    ----------
    url
        The address of `fair-allocator run` or of a gateway.
    token
        The bearer token, if the server requires one.
    timeout
        An attempt fails after this many seconds without a byte from the server. The seconds that
        the call asks the server to wait are added to this.
    retries
        How many times to make a call again if the server cannot be reached or is too busy.
    connections
        How many connections may be open at the same time.
    verify
        How to check the server's certificate. Pass a context to use your own certificate authority.
    transport
        The httpx transport for the requests; None means the network.
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
        """Ask a pool for one or more arms; return when the answer is durable.

        Parameters
        ----------
        pool
            The pool's name.
        request_id
            The id of the request. The same id always gets the first answer again. If left out, the
            client makes a new id.
        eligible
            The arms that can take the request; any arm if neither this nor `needs` is given.
        needs
            The tags that an arm must have to take the request, such as "french & !trainee".
        slots
            How many different arms the request wants; 1 if left out.
        wait
            Seconds to wait for the answer.

        Raises
        ------
        Waiting
            If there is no answer after `wait` seconds. The request stays recorded, and `find`
            returns its answer later.
        Refused
            If the allocator refuses the request; `reason` says why.
        """
        ask = Ask(pool, request_id or new_id(), eligible, needs, slots)
        return self._run(talks.assign(ask, wait, self._retries))

    def find(self, pool: str, request_id: str, wait: float = 0.0) -> Assignment:
        """Return the answer to an earlier request.

        Raises
        ------
        Waiting
            If there is no answer after `wait` seconds.
        NotKnown
            If the server does not know the request.
        """
        return self._run(talks.find(pool, request_id, wait, self._retries))

    def assign_many(
        self, asks: Iterable[Ask], *, wait: float = 10.0
    ) -> list[Assignment | AllocatorError]:
        """Send at most 1,000 requests in one call; return an answer or an error for each."""
        return self._run(talks.assign_many(asks, wait, self._retries))

    # -- events that are recorded -------------------------------------------------------------

    def reward(self, pool: str, request_id: str, value: float, arm: str | None = None) -> Recorded:
        """Send a reward from 0 to 1 for an assignment; return when the reward is durable.

        Name the arm if the request was given to several arms.
        """
        return self._run(talks.reward(Reward(pool, request_id, value, arm), self._retries))

    def decline(self, pool: str, request_id: str, arm: str | None = None) -> Recorded:
        """Decline an assignment for its arm; return when the decline is durable.

        Name the arm if you can. Without an arm, the client does not retry a decline that got no
        answer.
        """
        return self._run(talks.decline(Decline(pool, request_id, arm), self._retries))

    def reward_many(self, rewards: Iterable[Reward]) -> list[Recorded | AllocatorError]:
        """Send at most 1,000 rewards in one call; return where each was recorded, or an error."""
        return self._run(talks.reward_many(rewards, self._retries))

    def decline_many(self, declines: Iterable[Decline]) -> list[Recorded | AllocatorError]:
        """Send at most 1,000 declines in one call; return where each was recorded, or an error."""
        return self._run(talks.decline_many(declines, self._retries))

    def control(self, pool: str, action: str, **fields: Any) -> Recorded:
        """Change a pool, such as `control("tasks", "sleep", arms=["ann"])`.

        The token needs the right `control`.
        """
        return self._run(talks.control(pool, action, fields, self._retries))

    # -- looking ------------------------------------------------------------------------------

    def watch(self, pool: str | None = None, *, after: str | None = None) -> "Watch":
        """Follow the assignments of a pool, or of all pools, as they are committed.

        The watch begins now, or right after the `last_id` of an earlier watch.
        """
        feed = Feed(pool, after, self._retries, self._reconnects)
        return Watch(self._http, self._connection, feed)

    def pools(self, search: str = "", page: int = 1) -> dict[str, Any]:
        """Return one page of pools with their figures, as JSON, like the live page shows them."""
        return self._run(talks.pools(search, page, self._retries))

    def pool(self, name: str, page: int = 1) -> dict[str, Any]:
        """Return the figures of a pool and its arms, as JSON, like the live page shows them."""
        return self._run(talks.pool(name, page, self._retries))

    # -- transport ----------------------------------------------------------------------------

    def _run(self, talk: Talk[Result]) -> Result:
        """Make the call that a talk describes, and return its result (see `exchange`)."""
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
    """An endless stream of assignments. It connects again if the connection is lost.

    As a context manager, it connects when the block begins, and closes when the block ends. So it
    misses no assignment that is committed within the block.
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
        """Close the connection, and end the watch."""
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
