"""The thread that appends records. Each append takes all records that arrived since the last one.

One durable append takes about as long for a hundred records as for one. During an append, further
records arrive. So the more clients there are, the less each record costs.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from fair_allocator.front.answers import Answers
from fair_allocator.front.log_thread import LogThread
from fair_allocator.front.waiting import Receipt
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import Incoming

MOST_RECORDS: Final = 1_000
MOST_BYTES: Final = 4 * 2**20
"""The most records and bytes in one append."""

Item = tuple[Incoming, Receipt]


class Appender(LogThread):
    """Appends through a client that `open_client` makes.

    Attributes
    ----------
    appends, records
        How many appends there were, and how many records in all of them.
    """

    def __init__(self, open_client: Callable[[], LogClient], answers: Answers) -> None:
        super().__init__("appending", "append records", open_client)
        self.appends = self.records = 0
        self._answers = answers
        self._gathered: SimpleQueue[Item | None] = SimpleQueue()

    def submit(self, record: Incoming, receipt: Receipt) -> None:
        """Append a record soon.

        The wait of `receipt` ends when the record is durable or may be lost.
        """
        self._gathered.put((record, receipt))

    def stop(self) -> None:
        """End after the current append; refuse the records that still wait."""
        super().stop()
        self._gathered.put(None)

    # -- on its own thread --------------------------------------------------------------------

    def _work(self, client: LogClient) -> None:
        self._works()
        self._set_away("")
        while not self._ending.is_set():
            items = self._take()
            if items:
                try:
                    self._append(client, items)
                except BaseException as error:
                    # The records may or may not have arrived. Open a new client.
                    self._answers.fail([receipt for _, receipt in items], str(error))
                    raise

    def _append(self, client: LogClient, items: Sequence[Item]) -> None:
        try:
            places = client.append_many([record for record, _ in items])
        except ValueError:
            # One record is not valid, so nothing was appended. Append the others one by one.
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
        """Wait for a record. Return it with all other records that have arrived."""
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

    def _after_failure(self) -> None:
        """Refuse the records that wait."""
        refused: list[Receipt] = []
        with suppress(Empty):
            while True:
                item = self._gathered.get_nowait()
                if item is not None:
                    refused.append(item[1])
        self._answers.fail(refused, self.away)
