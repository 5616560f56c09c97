"""Send assignments as server-sent events, from now on or from the last event that a client had.

A stream first registers for new records, and only then reads the records that it has missed. So
there is no gap between the two. A reader that is too slow is cut off. It can come back with the id
of its last event.
"""

import asyncio
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fair_allocator.errors import LogError, OffsetGone
from fair_allocator.front.answering import RETRY
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import Place, Record
from fair_allocator.web.problem import Problem

CONTENT_TYPE: Final = "text/event-stream"

BEAT_SECONDS: Final = 15.0
"""Time between two comments while there are no events; they make proxies keep the connection."""

MOST_RECORDS: Final = 2_000
MOST_BYTES: Final = 4 * 2**20
"""The most bytes that may wait for one reader. A reader that is further behind is cut off."""

READERS: Final = 4
"""The most streams that read missed records at the same time."""

CHUNK_RECORDS: Final = 500
"""How many missed records to read at once."""

_KIND: Final = b'{"type":"assignment",'
LAST_ID: Final = r"\d{1,6}:(-1|\d{1,18})(,\d{1,6}:(-1|\d{1,18}))*"
"""The form of an event's id: for each partition, the offset of the last record that was sent, or
-1."""

Positions = dict[int, int]
"""By partition, the offset of the last record that was sent."""


def last_id(text: str) -> Positions | None:
    """Return the positions in the id of an event; None if the text is no such id.

    >>> last_id("0:12,3:-1")
    {0: 12, 3: -1}
    """
    if not re.fullmatch(LAST_ID, text):
        return None
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


class Stream:
    """A stream to one reader: the records that wait, and what was sent so far."""

    def __init__(self, keys: frozenset[bytes] | None, loop: asyncio.AbstractEventLoop) -> None:
        self.keys = keys
        """The names of the pool or of its parts, in UTF-8; None for all pools."""
        self.sent: Positions = {}
        self._waiting: deque[Record] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._loop = loop
        self._news = asyncio.Event()
        self._cut_off = False

    def wants(self, record: Record) -> bool:
        """Tell whether a record is for this reader."""
        return self.keys is None or record.key in self.keys

    def add(self, records: Sequence[Record]) -> None:
        """Add records for the reader; called on the follower's thread."""
        with self._lock:
            if self._cut_off:
                return
            self._waiting.extend(records)
            self._bytes += sum(len(record.value or b"") for record in records)
            self._cut_off = len(self._waiting) > MOST_RECORDS or self._bytes > MOST_BYTES
        self._wake()

    def cut_off(self) -> None:
        """End the stream."""
        with self._lock:
            self._cut_off = True
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._news.set)

    async def take(self) -> list[Record] | None:
        """Wait for records and return them; [] after a while without any, None at the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), BEAT_SECONDS)
        self._news.clear()
        with self._lock:
            records = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return None if self._cut_off else records

    def begin(self) -> bytes:
        """Return an event without data; its id says where this stream begins."""
        return b": assignments as they are committed\nid: %b\n\n" % self._place()

    def _place(self) -> bytes:
        return ",".join(f"{at}:{offset}" for at, offset in sorted(self.sent.items())).encode()

    def encode(self, record: Record) -> bytes:
        """Return a record as an event.

        The event's id says up to where the reader has all records.
        """
        self.sent[record.partition] = record.offset
        one = b"%d:%d" % (record.partition, record.offset)
        id = one if self.keys is not None and len(self.keys) == 1 else self._place()
        return b"id: %b\ndata: %b\n\n" % (id, record.value or b"")


class Streams:
    """All open streams, at most `most`."""

    def __init__(self, open_client: Callable[[], LogClient], most: int) -> None:
        self._open_client = open_client
        self._most = most
        self._streams: list[Stream] = []
        self._positions: dict[int, int] = {}
        """By partition, the position after the last assignment from the follower."""
        self._lock = threading.Lock()
        self._readers = ThreadPoolExecutor(READERS, "resuming a stream")

    def __len__(self) -> int:
        return len(self._streams)

    # -- on the follower's thread -------------------------------------------------------------

    def begin(self, positions: Mapping[Place, int]) -> None:
        """Note the positions from which the outputs are followed."""
        with self._lock:
            for (topic, partition), position in positions.items():
                if topic == "assignments":
                    self._positions[partition] = position

    def hear(self, records: Sequence[Record]) -> None:
        """Pass assignments on to the readers."""
        mine = [record for record in records if record.topic == "assignments"]
        with self._lock:
            for record in mine:
                self._positions[record.partition] = record.offset + 1
            if not self._streams:
                return
            mine = [record for record in mine if _is_assignment(record)]
            for stream in self._streams:
                wanted = [record for record in mine if stream.wants(record)]
                if wanted:
                    stream.add(wanted)

    # -- on the server's thread ---------------------------------------------------------------

    async def respond(self, pools: Sequence[str] | None, start: Positions | None) -> Response:
        """Return a stream of events for a reader.

        It begins after the positions in `start`, or now if `start` is None.

        `pools` are the pool that the reader wants, or all its parts; None means all pools.

        Raises
        ------
        Problem
            503 if there are too many streams, 410 if the records that the reader missed are gone.
        LogError
            If the log cannot be read.
        """
        if len(self._streams) >= self._most:
            raise Problem(
                503, "too many streams are open", reason="too-many-streams", headers=RETRY
            )
        keys = None if pools is None else frozenset(pool.encode() for pool in pools)
        stream = Stream(keys, asyncio.get_running_loop())
        with self._lock:
            self._streams.append(stream)
            heard = dict(self._positions)
        stream.sent = {at: position - 1 for at, position in heard.items()} | (start or {})
        missed = _Reading(self._open_client, stream, start or {}, heard, self._readers)
        response = _EventStream(self._events(stream, missed), partial(self._leave, stream, missed))
        try:
            await missed.begin()
        except BaseException as error:
            self._leave(stream, missed)
            if isinstance(error, OffsetGone):
                raise Problem(
                    410, "the log no longer holds the missed records", reason="gone"
                ) from error
            raise
        return response

    async def _events(self, stream: Stream, missed: "_Reading") -> AsyncIterator[bytes]:
        yield stream.begin()
        with suppress(LogError):  # the reader will come back, and then gets the error
            async for records in missed:
                yield b"".join(map(stream.encode, records))
            while (news := await stream.take()) is not None:
                yield b"".join(map(stream.encode, news)) or b":\n\n"

    def _leave(self, stream: Stream, missed: "_Reading") -> None:
        with self._lock:
            self._streams.remove(stream)
        missed.close()

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.cut_off()
        self._readers.shutdown(wait=False)


def _is_assignment(record: Record) -> bool:
    return (record.value or b"").startswith(_KIND)


class _EventStream(StreamingResponse):
    """A response that calls `leave` when it has ended, even after an error."""

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(events, headers={"content-type": CONTENT_TYPE})
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


class _Reading:
    """Reads the records that a stream has missed, in chunks, on the threads of an executor."""

    def __init__(
        self,
        open_client: Callable[[], LogClient],
        stream: Stream,
        start: Positions,
        heard: Mapping[int, int],
        readers: ThreadPoolExecutor,
    ) -> None:
        self._open_client = open_client
        self._stream = stream
        self._ranges = [
            (at, last + 1, heard[at])
            for at, last in sorted(start.items())
            if last + 1 < heard.get(at, 0)
        ]
        self._readers = readers
        self._client: LogClient | None = None
        self._records: Iterator[Record] = iter(())
        self._first: list[Record] = []

    async def begin(self) -> None:
        """Open the log and read the first records, if anything was missed."""
        if self._ranges:
            loop = asyncio.get_running_loop()
            self._first = await loop.run_in_executor(self._readers, self._open)

    def _open(self) -> list[Record]:
        self._client = self._open_client()
        self._records = self._read(self._client)
        return self._next()

    def _read(self, client: LogClient) -> Iterator[Record]:
        for partition, begin, end in self._ranges:
            for record in client.read("assignments", partition, begin, end):
                if _is_assignment(record) and self._stream.wants(record):
                    yield record

    def _next(self) -> list[Record]:
        return list(islice(self._records, CHUNK_RECORDS))

    async def __aiter__(self) -> AsyncIterator[list[Record]]:
        loop, records = asyncio.get_running_loop(), self._first
        while records:
            yield records
            records = await loop.run_in_executor(self._readers, self._next)

    def close(self) -> None:
        """Close the log's client after the current read."""
        with suppress(RuntimeError):  # the executor has ended, because the process ends
            self._readers.submit(self._close)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
