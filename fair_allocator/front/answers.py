"""Remember the latest answers, and the clients that wait for an answer.

The server's thread asks for answers. The *line* to the log (see `line`) reports where a record was
written, and what was decided. A `ClientLine` reports this on threads of its own, a `ServiceLine` on
the server's thread. A *waiter* is the object by which a client waits for an answer (see `waiting`).
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from fair_allocator.front.outcomes import Key, Outcome, key_in
from fair_allocator.front.waiting import Asker, File, Finder, LogAway, Receipt
from fair_allocator.log.records import Place, Record

STRETCH: Final = 256
"""Records to take in under one lock, so that the server's thread never waits long for it."""

MOST_BYTES: Final = 67_108_864
"""About how many bytes all answers may take. An answer usually takes less than 1,500 bytes."""

Waiter = Receipt | Finder


class Answers:
    """Remembers the outcomes of the latest requests, and of those that clients wait for.

    It remembers at most `most` requests in at most `most_bytes`, besides those that clients wait
    for.

    Attributes
    ----------
    taken
        About how many bytes the answers take.
    """

    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self.taken = 0
        self._most = most
        self._most_bytes = most_bytes
        self._files = OrderedDict[Key, File]()
        """What is known about each request, oldest first.

        A plain dict finds its first entry slowly after many removals.
        """
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        """The id of the server's thread."""

    def __len__(self) -> int:
        return len(self._files)

    # -- on the server's thread ---------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Complete futures on this event loop from now on; pass None when the loop ends."""
        self._loop = loop
        self._thread = threading.get_ident()

    def receipt(self) -> Receipt:
        """Return a receipt that waits until a record is durable."""
        return Receipt(asyncio.get_running_loop().create_future())

    def ask(self, key: Key, patient: bool) -> Asker:
        """Return a waiter for a request that the caller will send now.

        The waiter waits until the request is durable. If it is `patient`, it also waits for the
        answer. Call `leave` when the wait is over.
        """
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            file = self._file(key)
            asker = Asker(future, file, patient)
            file.waiters.append(asker)
        return asker

    def look_for(self, key: Key) -> Finder:
        """Return a waiter for a request that was sent before.

        Call `leave` when the wait is over.
        """
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            file = self._file(key)
            finder = Finder(future, file)
            file.waiters.append(finder)
            if finder.is_answered():
                future.set_result(None)
        return finder

    def leave(self, key: Key, waiter: Asker | Finder) -> Outcome | None:
        """End a wait. Return what is known about the request, or None."""
        with self._lock:
            file = waiter.file
            file.waiters.remove(waiter)
            outcome = file.outcome()
            if outcome is None and not file.waiters:
                del self._files[key]
                self.taken -= file.counted
            return outcome

    def hurry(self, asker: Asker) -> None:
        """Let a waiter wait only until its record is durable, and not for the answer any more."""
        with self._lock:
            asker.patient = False
            is_durable = asker.place is not None
        if is_durable and not asker.future.done():
            asker.future.set_result(None)

    def release(self) -> None:
        """Stop all waits for answers; requests that were sent still become durable or fail."""
        with self._lock:
            waiters = [waiter for file in self._files.values() for waiter in file.waiters]
        for waiter in waiters:
            if isinstance(waiter, Asker):
                self.hurry(waiter)
            else:
                _finish([waiter.future], None)

    def find(self, key: Key) -> Outcome | None:
        """Return what is known about a request, or None."""
        with self._lock:
            file = self._files.get(key)
            return None if file is None else file.outcome()

    def _file(self, key: Key) -> File:
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = File()
        else:
            file.outcome()
        return file

    # -- on any thread ------------------------------------------------------------------------

    def put(self, waiters: Sequence[Receipt], places: Sequence[tuple[int, int]]) -> None:
        """Note where records were written, now that they are durable."""
        with self._lock:
            over = [w for w, place in zip(waiters, places, strict=True) if w.put(place)]
        self._tell(over)

    def fail(self, waiters: Sequence[Receipt], why: str) -> None:
        """Tell these waiters that their records may be lost."""
        self._tell(waiters, why)

    def begin(self, positions: Mapping[Place, int]) -> None:
        """Do nothing: outcomes before these positions are not known here."""

    def hear(self, records: Sequence[Record]) -> None:
        """Take in output records, and answer the clients that wait for them."""
        keyed = [(key, record) for record in records if (key := key_in(record)) is not None]
        over: list[Asker | Finder] = []
        for begin in range(0, len(keyed), STRETCH):
            with self._lock:
                for key, record in keyed[begin : begin + STRETCH]:
                    file = self._files.get(key)
                    if file is None:
                        file = self._files[key] = File()
                    over += file.add(record)
                    taken = file.footprint() + 2 * len(key)
                    self.taken += taken - file.counted
                    file.counted = taken
                self._forget()
        self._tell(over)

    def _forget(self) -> None:
        """Forget the oldest requests beyond the limits."""
        kept: dict[Key, File] = {}
        while self._files and (
            len(self._files) + len(kept) > self._most or self.taken > self._most_bytes
        ):
            oldest, file = self._files.popitem(last=False)
            if file.waiters:
                kept[oldest] = file
            else:
                self.taken -= file.counted
        self._files |= kept  # added at the end, as the youngest

    def _tell(self, waiters: Iterable[Waiter], why: str | None = None) -> None:
        futures = [waiter.future for waiter in waiters]
        loop = self._loop
        if not futures or loop is None:
            return
        if threading.get_ident() == self._thread:
            _finish(futures, why)
        else:
            with suppress(RuntimeError):  # the loop has ended, so no client waits
                loop.call_soon_threadsafe(_finish, futures, why)


def _finish(futures: "Sequence[asyncio.Future[None]]", why: str | None) -> None:
    for future in futures:
        if not future.done():
            if why is None:
                future.set_result(None)
            else:
                future.set_exception(LogAway(why))
