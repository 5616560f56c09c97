"""A thread that works on the log with its own client, and starts again when the client fails."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from fair_allocator.errors import FairAllocatorError
from fair_allocator.log.base import LogClient

logger = logging.getLogger(__name__)

LONGEST_PAUSE: Final = 2.0
"""The most seconds between two attempts to reach the log."""

CONNECTING: Final = "there is no connection to the log yet"
ENDING: Final = "the server is shutting down"


class LogThread(ABC):
    """Connects, works until something fails, and connects again after a pause.

    Attributes
    ----------
    away
        Why the thread cannot do its work now; "" if it can.
    """

    def __init__(self, name: str, task: str, open_client: Callable[[], LogClient]) -> None:
        """`task` completes the sentence "cannot ..." in messages."""
        self.away = CONNECTING
        self._task = task
        self._open_client = open_client
        self._pause = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current step."""
        self.away = ENDING
        self._ending.set()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end, but at most `seconds`."""
        self._thread.join(seconds)

    # -- on its own thread --------------------------------------------------------------------

    @abstractmethod
    def _work(self, client: LogClient) -> None:
        """Work until `_ending` is set; raise if the log fails."""

    def _after_failure(self) -> None:  # noqa: B027  (not every task has something to do)
        """Clean up after a failure, before the next attempt, and at the end."""

    def _run(self) -> None:
        while not self._ending.wait(self._pause):
            try:
                with self._open_client() as client:
                    self._work(client)
            except FairAllocatorError as error:
                logger.warning("cannot %s: %s", self._task, error)
                self._set_away(str(error))
            except Exception:
                logger.exception("cannot %s", self._task)
                self._set_away(f"the server cannot {self._task}, see its log")
            self._after_failure()
            self._pause = min(LONGEST_PAUSE, 0.05 + 2 * self._pause)
        self._after_failure()

    def _works(self) -> None:
        """Note that the log can be reached again."""
        self._pause = 0.0

    def _set_away(self, why: str) -> None:
        if not self._ending.is_set():
            self.away = why
