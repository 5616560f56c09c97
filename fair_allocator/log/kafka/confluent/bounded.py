"""Calls into the client that may never return.

`send_offsets_to_transaction` and `commit_transaction` take a timeout. But they pass it to a
background thread of librdkafka, and wait for that thread without a limit. When a broker leaves the
cluster, librdkafka drops its pending requests to this broker. If the dropped request should store
the positions of a transaction, the error is lost, and the call waits for ever. (In version 2.16
this is the branch of `rd_kafka_txn_handle_TxnOffsetCommit` that ends in a bare `return`.) So
`BoundedCalls` makes the call on a thread of its own, and abandons this thread if the call does not
return.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from fair_allocator.log.kafka.driver import Unreachable

MARGIN_SECONDS: Final = 0.25
"""How much longer than its own limit a call may take."""

ROOM: Final = 3.0
"""The next call may take this many times as long as the last one."""


class GrowingLimit:
    """The time limit of a call: short at first, doubled after each call that took longer.

    So a call that never returns is soon given up. A slow cluster still gets enough time, because
    the limit grows with the time that calls take.
    """

    def __init__(self, least: float, most: float) -> None:
        self.seconds = self._least = min(least, most)
        self._most = most

    def kept(self, took: float) -> None:
        """Note that a call returned after `took` seconds."""
        self.seconds = min(max(self._least, ROOM * took), self._most)

    def exceeded(self) -> None:
        """Note that a call took longer than the limit, or failed."""
        self.seconds = min(2 * self.seconds, self._most)


class BoundedCalls:
    """Makes calls one after the other on a thread of its own, each within a time limit.

    After a call that did not return in time, make a new object.
    """

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (ask := self._asked.get()) is not None:
            try:
                ask()
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)

    def call(self, what: str, ask: Callable[..., Any], *arguments: Any, limit: float) -> None:
        """Make a call that has its own limit; raise the error that it raises.

        Raises
        ------
        Unreachable
            If the call has not returned a moment after that limit.
        """
        self._asked.put(lambda: ask(*arguments))
        try:
            error = self._done.get(timeout=limit + MARGIN_SECONDS)
        except Empty:
            raise Unreachable(f"{what} did not return within {limit:g} s") from None
        if error is not None:
            raise error

    def close(self) -> None:
        """Let the thread end after its current call."""
        self._asked.put(None)
