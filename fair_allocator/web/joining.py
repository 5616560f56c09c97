"""A transport that sends the head of an answer together with the beginning of its body.

uvicorn writes them one after the other. That costs each answer one more system call, during which
the decision loop may take the interpreter.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

_MOST: Final = 65_536
"""The longest piece of a body to copy behind its head; to copy more costs too much."""

if TYPE_CHECKING:
    _Base = asyncio.Transport
else:
    _Base = object


class Joining(_Base):
    """Holds a head back until the body comes or the event loop's next turn; passes all else on."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._at_head = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def answer_ended(self) -> None:
        """Note that the next write begins with a head."""
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
