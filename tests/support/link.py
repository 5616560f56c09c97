"""A network link between clients and one broker. Tests can cut it, slow it down or block it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final

CHUNK_BYTES: Final = 65_536
ENDS_SECONDS: Final = 10.0


class Link:
    """Passes bytes between the clients that connect to `port` and a port of a broker.

    It runs on a separate thread from `start` to `stop`. The effect of a method that breaks the link
    lasts until `mend`.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._is_cut = self._is_dumb = False
        self._seconds = 0.0
        self._server: asyncio.Server
        self._thread = threading.Thread(target=self._run, name=f"link {port}", daemon=True)

    def start(self) -> "Link":
        """Begin to accept clients."""
        listening = threading.Event()
        self._loop.call_soon(self._passes.set)
        self._loop.create_task(self._listen(listening))
        self._thread.start()
        assert listening.wait(ENDS_SECONDS), f"nobody listens on port {self.port}"
        return self

    def stop(self) -> None:
        """Drop every connection, and accept no more clients."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(ENDS_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- what may happen to it -----------------------------------------------------------------

    def cut(self) -> None:
        """Drop every connection, and every new connection at once."""
        self._tell(lambda: setattr(self, "_is_cut", True))
        self._tell(self._drop_all)

    def slow_down(self, seconds: float) -> None:
        """Delay all bytes by this many seconds."""
        self._tell(lambda: setattr(self, "_seconds", seconds))

    def hang(self) -> None:
        """Pass no bytes on. Connections stay open, and new ones can be made."""
        self._tell(self._passes.clear)

    def drop_replies(self) -> None:
        """Pass on what clients send, and drop the answers of the broker."""
        self._tell(lambda: setattr(self, "_is_dumb", True))

    def mend(self) -> None:
        """Pass all bytes on again. Drop the connections that have lost an answer."""
        if self._is_dumb:
            self._tell(self._drop_all)
        self._tell(self._make_whole)

    def _make_whole(self) -> None:
        self._is_cut = self._is_dumb = False
        self._seconds = 0.0
        self._passes.set()

    # -- on its own thread ---------------------------------------------------------------------

    def _tell(self, change: Callable[[], None]) -> None:
        """Make a change on the link's thread, and wait until it is made."""
        made = threading.Event()
        self._loop.call_soon_threadsafe(change)
        self._loop.call_soon_threadsafe(made.set)
        made.wait(ENDS_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self, listening: threading.Event) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", self.port)
        listening.set()

    async def _end(self) -> None:
        self._server.close()
        self._drop_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to the broker, and pass bytes between a client and the broker."""
        if self._is_cut:
            writer.close()
            return
        try:
            answers, asked = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        both = {writer, asked}
        self._open |= both
        try:
            ways = self._pass_on(reader, asked), self._pass_on(answers, writer, are_replies=True)
            done, left = await asyncio.wait(
                [asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED
            )
            for way in left:
                way.cancel()
            await asyncio.gather(*done, *left, return_exceptions=True)
        finally:
            self._open -= both
            for each in both:
                each.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        are_replies: bool = False,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._passes.wait()
            if self._seconds:
                await asyncio.sleep(self._seconds)
            if not (are_replies and self._is_dumb):
                writer.write(data)
                await writer.drain()

    def _drop_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()
