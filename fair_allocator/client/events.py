"""Read server-sent events from a stream of bytes."""

from collections.abc import Iterator
from typing import Final, NamedTuple

LONGEST_EVENT: Final = 8 * 2**20
"""The most bytes of an event: eight times the longest record of the allocator."""


class TooLong(Exception):
    """An event is too long to keep in memory."""


class Event(NamedTuple):
    """One event from the server: data, or only a new position."""

    id: str | None
    """The last position that the server has sent."""
    data: str | None


class EventReader:
    r"""Reads events from pieces of a stream, which may be cut anywhere.

    >>> reader = EventReader()
    >>> [*reader.feed(b": hello\n\nid: 0:7\nda")], [*reader.feed(b"ta: x\r\n\r\n")]
    ([], [Event(id='0:7', data='x')])
    """

    def __init__(self, last_id: str | None = None) -> None:
        self._id = last_id
        self._named = False
        self._data: list[str] = []
        self._length = 0
        self._rest = b""
        self._after_return = False
        self._first = True

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete."""
        for line in self._lines(data):
            if line:
                self._field(line)
                continue
            if self._data or self._named:
                yield Event(self._id, "\n".join(self._data) if self._data else None)
            self._data, self._named, self._length = [], False, 0

    def _lines(self, data: bytes) -> Iterator[bytes]:
        r"""Yield whole lines; only \r\n, \n and \r end a line."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        if data.endswith(b"\r"):
            self._after_return = True  # if a "\n" follows, it belongs to this line
        *lines, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            yield self._whole(line)
        self._keep(rest)

    def _keep(self, rest: bytes) -> None:
        self._rest += rest
        if self._length + len(self._rest) > LONGEST_EVENT:
            raise TooLong(f"an event is longer than {LONGEST_EVENT:,} bytes")

    def _whole(self, line: bytes) -> bytes:
        self._keep(line)
        whole, self._rest = self._rest, b""
        if self._first:
            whole, self._first = whole.removeprefix(b"\xef\xbb\xbf"), False
        return whole

    def _field(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._length += len(line)
        elif name == "id" and "\0" not in value:
            self._id, self._named = value, True
