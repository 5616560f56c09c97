"""The line to a service in the same process, through its own commits.

A commit of the service appends our records, decides them, and passes us the outputs. So an answer
needs one transaction and two threads. The service's thread only passes on what it has committed.
All other work is done on the server's thread.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from fair_allocator.front.answers import STRETCH, Answers
from fair_allocator.front.following import Listener, where_to_begin
from fair_allocator.front.log_thread import ENDING, LogThread
from fair_allocator.front.waiting import Receipt
from fair_allocator.log.base import LogClient
from fair_allocator.log.intake import Intake
from fair_allocator.log.records import Incoming, Place, Record

LOOK_SECONDS: Final = 0.5
"""How often a thread that waits for the server's thread checks whether it should end."""


class ServiceLine:
    """A line through the intake of a service's log.

    It first reads the latest outputs from the log, as a `ClientLine` does. What the service commits
    during this time is passed on after them.

    Attributes
    ----------
    appends, records
        See `Line`.
    """

    def __init__(
        self,
        intake: Intake,
        open_client: Callable[[], LogClient],
        answers: Answers,
        listeners: Sequence[Listener],
        look_back: int,
    ) -> None:
        self.appends = self.records = 0
        self._intake = intake
        self._answers = answers
        self._listeners = listeners
        self._looking_back = _LookingBack(open_client, look_back, self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = ""
        self._held: list[Record] | None = []
        """Records committed while the latest outputs are being read; None after that."""

    @property
    def cannot_append(self) -> str:
        return self._ended or self._intake.away

    @property
    def cannot_hear(self) -> str:
        return self._ended or self._intake.away or self._looking_back.away

    @property
    def is_alive(self) -> bool:
        return not self.cannot_append

    # -- on the server's thread ---------------------------------------------------------------

    def submit(self, record: Incoming, receipt: Receipt) -> None:
        self._intake.submit(record, receipt)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._intake.hearer = self
        # Look for the end of the log only now: the service tells us everything that it commits from
        # now on.
        self._looking_back.start()

    def stop(self) -> None:
        self._ended = ENDING
        self._looking_back.stop()

    def join(self, seconds: float) -> None:
        self._looking_back.join(seconds)

    def _settle(
        self,
        receipts: Sequence[Receipt],
        places: Sequence[tuple[int, int]],
        outputs: Sequence[Record],
    ) -> None:
        if receipts:
            self.appends += 1
            self.records += len(receipts)
            self._answers.put(receipts, places)
        if outputs and self._held is not None:
            self._held += outputs
        elif outputs:
            self._hear(outputs)

    def _hear(self, outputs: Sequence[Record]) -> None:
        for listener in self._listeners:
            listener.hear(outputs)

    def begin(self, positions: Mapping[Place, int]) -> None:
        """Tell the listeners where the outputs begin."""
        for listener in self._listeners:
            listener.begin(positions)

    def look_back(self, outputs: Sequence[Record]) -> None:
        """Pass on outputs that were committed before this line began."""
        self._hear(outputs)

    def go_on(self, ends: Mapping[Place, int]) -> None:
        """Pass on what was committed from the positions `ends` on, and what is committed later."""
        held, self._held = self._held or [], None
        self._hear([each for each in held if each.offset >= ends[each.topic, each.partition]])

    # -- on the service's thread --------------------------------------------------------------

    def committed(
        self,
        tickets: Sequence[Receipt],
        places: Sequence[tuple[int, int]],
        outputs: Sequence[Record],
    ) -> None:
        self.post(self._settle, tickets, places, outputs[:STRETCH])
        # Pass the outputs in stretches, so that the server's thread can do other work between two
        # of them.
        for begin in range(STRETCH, len(outputs), STRETCH):
            self.post(self._settle, (), (), outputs[begin : begin + STRETCH])

    def failed(self, tickets: Sequence[Receipt], why: str) -> None:
        self.post(self._answers.fail, tickets, why)

    # -- on any thread ------------------------------------------------------------------------

    def post(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call `work` on the server's thread soon, without waiting for it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, so no client waits
                self._loop.call_soon_threadsafe(work, *arguments)


class _LookingBack(LogThread):
    """The thread that reads the latest outputs, and then ends."""

    def __init__(
        self, open_client: Callable[[], LogClient], look_back: int, line: ServiceLine
    ) -> None:
        super().__init__("looking back", "read the latest outputs", open_client)
        self._look_back = look_back
        self._line = line

    def _work(self, client: LogClient) -> None:
        begins, ends = where_to_begin(client, self._look_back)
        self._do(self._line.begin, begins)
        for place, begin in begins.items():
            for records in _stretches(client.read(*place, begin, ends[place])):
                self._do(self._line.look_back, records)
        self._do(self._line.go_on, ends)
        self._set_away("")
        self._ending.set()

    def _do(self, work: Callable[..., None], argument: Any) -> None:
        """Call `work` on the server's thread, and wait until it has returned."""
        done = threading.Event()

        def do() -> None:
            work(argument)
            done.set()

        self._line.post(do)
        while not done.wait(LOOK_SECONDS) and not self._ending.is_set():
            pass


def _stretches(records: Iterator[Record]) -> Iterator[list[Record]]:
    while some := [*islice(records, STRETCH)]:
        yield some
