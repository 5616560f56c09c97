"""The server: one port, one thread, one event loop. It changes neither signals nor logging.

The server accepts connections itself, a few in each turn of the event loop. asyncio would first
accept all connections that wait, before it does anything else. It would also count a connection
only after its TLS handshake.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.connection import Connection
from fair_allocator.web.crowd import Crowd
from fair_allocator.web.tls import Tls

logger = logging.getLogger(__name__)

ACCEPTS: Final = 32
"""Connections to accept in one turn of the event loop, before it serves the others."""

SWEPT: Final = 32
"""The most slow connections to end in one turn of the event loop."""

SWEEP_SECONDS: Final = 0.2
"""How often to look for connections that took too long."""


class Server:
    """Serves an application on a listening socket, see `listening`."""

    def __init__(
        self,
        listener: socket.socket,
        app: Application,
        bounds: Bounds | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._app = app
        self._bounds = bounds or Bounds()
        self._tls = tls
        self._crowd = Crowd(self._bounds, _most_connections(self._bounds))
        self._socket = listener
        self.host, self.port = self._socket.getsockname()[:2]

    @property
    def url(self) -> str:
        """The address of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}/"

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return len(self._crowd)

    @contextmanager
    def running(self) -> Iterator["Server"]:
        """Serve while the block runs."""
        serving = _Serving(self._socket, self._app, self._bounds, self._tls, self._crowd)
        thread = threading.Thread(target=serving.run, name="web", daemon=True)
        thread.start()
        try:
            serving.wait_until_started()
            yield self
        finally:
            serving.stop()
            thread.join()


def _most_connections(bounds: Bounds) -> int:
    """Return the limit of connections, which leaves at least half of the file descriptors free."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return bounds.connections if files < 0 else max(1, min(bounds.connections, files // 2))


class _Serving:
    """The part of the server that runs on its own thread."""

    def __init__(
        self,
        listener: socket.socket,
        app: Application,
        bounds: Bounds,
        tls: Tls | None,
        crowd: Crowd,
    ) -> None:
        self._listener = listener
        self._app = app
        self._bounds = bounds
        self._tls = tls
        self._crowd = crowd
        self._state = ServerState()
        self._config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._connecting: set[asyncio.Task[None]] = set()

    # -- for other threads --------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop` is called."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            logger.exception("the server has ended")
        finally:
            self._listener.close()
            self._started.set()

    def wait_until_started(self) -> None:
        """Wait until the server answers requests; raise if it could not start."""
        self._started.wait()
        if self._failure is not None:
            raise RuntimeError("the server could not be started") from self._failure

    def stop(self) -> None:
        """Ask the server to end."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, after a failure
            self._loop.call_soon_threadsafe(self._ending.set)

    # -- on its own thread --------------------------------------------------------------------

    async def _serve(self) -> None:
        self._config.load()
        async with AsyncExitStack() as stack:
            await self._app.start(stack)
            self._listen()
            self._started.set()
            while not self._ending.is_set():
                if self._crowd.sweep(SWEPT):
                    await asyncio.sleep(0)
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), SWEEP_SECONDS)
            self._loop.remove_reader(self._listener)
            self._listener.close()
        await self._end()

    def _listen(self) -> None:
        if not self._ending.is_set():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept a few of the waiting connections."""
        for _ in range(ACCEPTS):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Too few file descriptors: close a connection, and try again soon.
                logger.warning("a connection could not be accepted: %s", error.strerror)
                self._crowd.make_room()
                self._loop.remove_reader(self._listener)
                self._loop.call_later(SWEEP_SECONDS, self._listen)
                return
            connection = Connection(
                self._config, self._state, self._loop, self._crowd, self._bounds, client
            )
            self._crowd.add(connection)
            task = self._loop.create_task(self._connect(connection, client))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: Connection, client: socket.socket) -> None:
        """Hand an accepted connection to the event loop, after its TLS handshake."""
        try:
            tls = None if self._tls is None else self._tls.context()
            handshake = self._bounds.head_seconds if tls else None
            await self._loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=self._bounds.linger_seconds if tls else None,
            )
        except OSError:
            self._crowd.remove(connection)

    async def _end(self) -> None:
        """Let answers in progress end, then close all connections and cancel the other tasks."""
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=self._bounds.end_seconds)
        for connection in self._crowd:
            connection.cut()
        await asyncio.sleep(0)  # let the connections learn that they are closed
        under_way = {*self._state.tasks}
        for task in under_way:
            task.cancel()
        under_way |= self._connecting
        if under_way:
            await asyncio.wait(under_way, timeout=self._bounds.end_seconds)
