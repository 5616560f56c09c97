"""Put the pieces of the API together, and serve them as a part of a web application."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.routing import Route

from fair_allocator.config import Configuration
from fair_allocator.front.answers import Answers
from fair_allocator.front.asking import Reader
from fair_allocator.front.following import Listener
from fair_allocator.front.line import ClientLine, Line
from fair_allocator.front.metrics import ApiMetrics
from fair_allocator.front.operations import Operations
from fair_allocator.front.routes import routes_of
from fair_allocator.front.streams import Streams
from fair_allocator.front.within import ServiceLine
from fair_allocator.log.base import LogClient
from fair_allocator.log.intake import Intake
from fair_allocator.signing import Signer
from fair_allocator.web.access import Access
from fair_allocator.web.application import Part

END_SECONDS: Final = 2.0
"""How long to wait for each thread at the end. After that it is abandoned."""


class Front:
    """The HTTP API on a log; `open_client` makes a client of the log for each thread.

    If a service in this process serves the log, `intake` is the log's intake (see `log.intake`);
    otherwise None. `signer` signs the controls of clients; None to leave them unsigned.
    """

    def __init__(
        self,
        configuration: Configuration,
        open_client: Callable[[], LogClient],
        access: Access,
        intake: Intake | None = None,
        signer: Signer | None = None,
    ) -> None:
        settings, limits = configuration.api, configuration.limits
        self._most_wait = settings.max_wait_seconds
        self.answers = Answers(settings.remembered_answers)
        self.streams = Streams(open_client, settings.max_streams)
        # Streams come first, so that a stream that a client opens after an answer begins after that
        # answer.
        listeners: list[Listener] = [self.streams, self.answers]
        look_back = settings.look_back_records
        self.line: Line = (
            ClientLine(open_client, self.answers, listeners, look_back)
            if intake is None
            else ServiceLine(intake, open_client, self.answers, listeners, look_back)
        )
        self.metrics = ApiMetrics(self)
        self.operations = Operations(
            settings,
            access,
            Reader(
                limits.unknown_fields,
                limits.record_bytes,
                configuration.splits,
                configuration.senders,
                signer,
            ),
            self.answers,
            self.line,
            self.streams,
        )

    @property
    def away(self) -> str:
        """Why the log cannot be reached; "" if it can."""
        return self.line.cannot_append or self.line.cannot_hear

    @property
    def is_alive(self) -> bool:
        """Whether the threads of the line to the log run."""
        return self.line.is_alive

    @property
    def routes(self) -> list[Route]:
        """The paths of the API."""
        return routes_of(self.operations, self.metrics, self._most_wait)

    @property
    def part(self) -> Part:
        """The API as a part of an application."""
        return Part(self.routes, self._running, [self.metrics])

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.answers.attach(loop)
        self.line.start()
        try:
            yield
        finally:
            self.line.stop()
            self.streams.close()
            self.answers.release()
            await loop.run_in_executor(None, self.line.join, END_SECONDS)
