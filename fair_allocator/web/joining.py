"""A transport that sends the head of an answer together with the beginning of its body.

uvicorn writes them one after the other, which is a system call more for every answer, and one more
moment in which the decision loop takes the interpreter.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

_MOST: Final = 65_536
"""Bytes of a body that are copied to be sent with its head; a copy of more costs too much."""

if TYPE_CHECKING:
    _Base = asyncio.Transport
else:
    _Base = object


class Joining(_Base):
    """Holds back a head until the body comes, or the event loop's next turn; all else goes on."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._at_head = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def answer_ended(self) -> None:
        """Hear that what is written next is a head."""
        self._at_head = True

    def write(self, data: Any) -> None:
        if self._at_head:
            self._at_head = False
            self._held = data
            self._loop.call_soon(self._flush)
        elif self._held and len(data) <= _MOST:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._flush()
            self._transport.write(data)

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._held = b""
        self._transport.abort()
