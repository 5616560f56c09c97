"""The thread that appends: whatever has gathered since its last append, in one go.

One durable append takes about as long for a hundred records as for one. While it is under way,
further records gather, so the more clients there are, the less each of them costs.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from fair_allocator.errors import FairAllocatorError
from fair_allocator.front.answers import Answers
from fair_allocator.front.waiting import Receipt
from fair_allocator.log.base import Incoming, LogClient

logger = logging.getLogger(__name__)

MOST_RECORDS: Final = 1_000
MOST_BYTES: Final = 4 * 2**20
"""What is appended at once at most."""

LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts to reach a log that is away."""

CONNECTING: Final = "there is no connection to the log yet"
ENDING: Final = "the server is shutting down"

Item = tuple[Incoming, Receipt]


class Appender:
    """Appends on a thread of its own, through a client that `open_client` makes.

    Attributes
    ----------
    away
        Why nothing can be appended now; "" if it can.
    appends, records
        How many appends there were, and how many records in all of them.
    """

    def __init__(self, open_client: Callable[[], LogClient], answers: Answers) -> None:
        self.away = CONNECTING
        self.appends = self.records = 0
        self._open_client = open_client
        self._answers = answers
        self._gathered: SimpleQueue[Item | None] = SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="appending", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def submit(self, record: Incoming, receipt: Receipt) -> None:
        """Append a record soon; its receipt is told when it is durable, or may be lost."""
        self._gathered.put((record, receipt))

    def stop(self) -> None:
        """End after the append under way; what has gathered is refused."""
        self.away = ENDING
        self._ending.set()
        self._gathered.put(None)

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end, but no longer than that."""
        self._thread.join(seconds)

    # -- on its own thread --------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            try:
                with self._open_client() as client:
                    pause = 0.0
                    self._set_away("")
                    self._append_on(client)
            except FairAllocatorError as error:
                # What the client has sent may have arrived or not: the next one starts afresh.
                logger.warning("records cannot be appended: %s", error)
                self._set_away(str(error))
            except Exception:
                logger.exception("the appender failed")
                self._set_away("the log cannot be written, see the server's messages")
            self._refuse_gathered()
            pause = min(LONGEST_PAUSE, 0.05 + 2 * pause)
        self._refuse_gathered()

    def _set_away(self, why: str) -> None:
        if not self._ending.is_set():
            self.away = why

    def _append_on(self, client: LogClient) -> None:
        """Append until the end; raises if the log fails."""
        while not self._ending.is_set():
            items = self._take()
            if items:
                try:
                    self._append(client, items)
                except BaseException as error:
                    self._answers.fail([receipt for _, receipt in items], str(error))
                    raise

    def _append(self, client: LogClient, items: Sequence[Item]) -> None:
        try:
            places = client.append_many([record for record, _ in items])
        except ValueError:
            # Nothing was appended, since one of them cannot be: the others must not suffer for it.
            self._append_singly(client, items)
            return
        self.appends += 1
        self.records += len(items)
        self._answers.put([receipt for _, receipt in items], places)

    def _append_singly(self, client: LogClient, items: Sequence[Item]) -> None:
        for record, receipt in items:
            try:
                place = client.append_many([record])
            except ValueError as error:
                self._answers.fail([receipt], str(error))
            else:
                self.appends += 1
                self.records += 1
                self._answers.put([receipt], place)

    def _take(self) -> list[Item]:
        """Wait for a record; return it with all that have gathered."""
        items: list[Item] = []
        size = 0
        item = self._gathered.get()
        with suppress(Empty):
            while item is not None:
                items.append(item)
                size += len(item[0].value or b"")
                if len(items) >= MOST_RECORDS or size >= MOST_BYTES:
                    break
                item = self._gathered.get_nowait()
        return items

    def _refuse_gathered(self) -> None:
        refused: list[Receipt] = []
        with suppress(Empty):
            while True:
                item = self._gathered.get_nowait()
                if item is not None:
                    refused.append(item[1])
        self._answers.fail(refused, self.away)
