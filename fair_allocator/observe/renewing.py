"""Renew a report again and again on a separate thread, as long as clients ask for it."""

import threading
import time
from collections.abc import Callable
from typing import Final

INTEREST_SECONDS: Final = 120.0
"""How long a report is renewed after a client last asked for it."""


class Renewing:
    """Calls `renew` again and again.

    `renew` returns the seconds until its next call, None to end.
    """

    def __init__(
        self,
        renew: Callable[[], float | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renew = renew
        self._monotonic = monotonic
        self._asked_at = 0.0
        self._closed = threading.Event()
        self._running = False
        self._lock = threading.Lock()

    def begin(self, pause: float) -> None:
        """Begin to renew, after a pause in seconds, unless this has begun already."""
        with self._lock:
            self._asked_at = self._monotonic()
            if self._running or self._closed.is_set():
                return
            self._running = True
        threading.Thread(target=self._run, args=(pause,), name="renewing", daemon=True).start()

    def goes_on(self) -> bool:
        """Note that a client has asked; tell whether the report is being renewed."""
        with self._lock:
            self._asked_at = self._monotonic()
            return self._running

    def close(self) -> None:
        """End after the current call of `renew`."""
        self._closed.set()

    def _run(self, pause: float) -> None:
        try:
            while not self._closed.wait(pause):
                with self._lock:
                    if self._monotonic() - self._asked_at > INTEREST_SECONDS:
                        return
                next_pause = self._renew()
                if next_pause is None:
                    return
                pause = next_pause
        finally:
            with self._lock:
                self._running = False
