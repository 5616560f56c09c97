"""The line from the API to the log: records go out, and committed outputs come back.

A gateway has a `ClientLine`: one thread appends the records, another one reads the outputs. Beside
a service on the embedded log, `within.ServiceLine` does both through the service's own commits.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from fair_allocator.front.answers import Answers
from fair_allocator.front.appending import Appender
from fair_allocator.front.following import Following, Listener
from fair_allocator.front.waiting import Receipt
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import Incoming


class Line(Protocol):
    """What the API needs from a log. Call all methods on the server's thread."""

    @property
    def cannot_append(self) -> str:
        """Why no record can be appended now; "" if one can."""

    @property
    def cannot_hear(self) -> str:
        """Why some or all outputs cannot be read yet; "" if all of them can be read."""

    @property
    def is_alive(self) -> bool:
        """Whether the threads of the line run."""

    @property
    def appends(self) -> int:
        """How many transactions had records of this line."""

    @property
    def records(self) -> int:
        """How many records of this line are durable."""

    def submit(self, record: Incoming, receipt: Receipt) -> None:
        """Append a record soon.

        The wait of `receipt` ends when the record is durable or may be lost.
        """

    def start(self) -> None:
        """Begin to connect."""

    def stop(self) -> None:
        """Refuse further records, and those that wait; read no more outputs."""

    def join(self, seconds: float) -> None:
        """Wait until the line has ended, at most `seconds` for each thread.

        This blocks the caller.
        """


class ClientLine:
    """A line through clients of the log, for a process without the service."""

    def __init__(
        self,
        open_client: Callable[[], LogClient],
        answers: Answers,
        listeners: Sequence[Listener],
        look_back: int,
    ) -> None:
        self._appender = Appender(open_client, answers)
        self._following = Following(open_client, listeners, look_back)

    @property
    def cannot_append(self) -> str:
        return self._appender.away

    @property
    def cannot_hear(self) -> str:
        return self._following.away

    @property
    def is_alive(self) -> bool:
        return self._appender.is_alive and self._following.is_alive

    @property
    def appends(self) -> int:
        return self._appender.appends

    @property
    def records(self) -> int:
        return self._appender.records

    def submit(self, record: Incoming, receipt: Receipt) -> None:
        self._appender.submit(record, receipt)

    def start(self) -> None:
        self._appender.start()
        self._following.start()

    def stop(self) -> None:
        self._appender.stop()
        self._following.stop()

    def join(self, seconds: float) -> None:
        self._appender.join(seconds)
        self._following.join(seconds)
