"""Watch the loop of the service: stop it on signals, and end the process if the loop is stuck.

A separate thread reads the signals, so that even a loop that hangs in a system call can be ended.
An immediate end loses nothing, because a commit happens as a whole or not at all. (With
at-least-once delivery, published records may be published a second time.)
"""

import faulthandler
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fair_allocator.errors import EX_SOFTWARE

logger = logging.getLogger(__name__)

LOOKS: Final = 10
"""After this many checks without a beat, a loop counts as stuck.

Checks are counted, and not seconds, because a suspended process makes no checks.
"""

LAST_WORDS_SECONDS: Final = 5.0
"""How long the last report may take.

It needs a limit, because writing to standard error may hang.
"""

ONE_MOMENT: Final = 0.2
"""Seconds within which signals count as one. Some supervisors signal the process and its group."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watchdog:
    """Watches one loop.

    Parameters
    ----------
    stuck_seconds
        After this many seconds without a beat, the watchdog writes the stacks and exits 70.
    drain_seconds
        How many seconds the loop may take to end after the first signal. After that, the watchdog
        also writes the stacks and exits 70.
    """

    def __init__(self, stuck_seconds: float, drain_seconds: float) -> None:
        self._stuck_seconds = stuck_seconds
        self._drain_seconds = drain_seconds
        self._beats = 0
        self._stopped_at: float | None = None

    def beat(self) -> None:
        """Report that the loop makes progress."""
        self._beats += 1

    @contextmanager
    def over(self, stop: Callable[[], None]) -> Iterator[None]:
        """Watch while the block runs; `stop` asks the loop to end. Call this on the main thread."""
        awake, wake = os.pipe()
        os.set_blocking(wake, False)
        thread = threading.Thread(
            target=self._watch, args=(awake, stop), name="watchdog", daemon=True
        )
        former = {
            number: signal.signal(number, _heard)
            for number in _SIGNALS
            if number != signal.SIGHUP or not _is_ignored(number)  # nohup ignores SIGHUP
        }
        former_wake = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(former_wake)
            for number, handler in former.items():
                signal.signal(number, handler)
            os.close(wake)
            thread.join()
            os.close(awake)

    def _watch(self, awake: int, stop: Callable[[], None]) -> None:
        beats, idle = self._beats, 0
        while True:
            pause = self._stuck_seconds / LOOKS
            if self._stopped_at is not None:
                pause = max(0.0, self._stopped_at + self._drain_seconds - time.monotonic())
            if select.select([awake], [], [], pause)[0]:
                numbers = os.read(awake, 64)
                if not numbers:
                    return
                for number in numbers:
                    self._signalled(signal.Signals(number), stop)
            elif self._stopped_at is not None:
                _give_up(f"did not end within {self._drain_seconds:g} s (service.drain_seconds)")
            elif self._beats != beats:
                beats, idle = self._beats, 0
            else:
                idle += 1
                if idle >= LOOKS:
                    _give_up(f"stuck for {self._stuck_seconds:g} s (service.stuck_seconds)")

    def _signalled(self, number: signal.Signals, stop: Callable[[], None]) -> None:
        if number not in _SIGNALS:
            return
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
            stop()
            logger.info("%s: draining; a second one ends at once, and loses nothing", number.name)
        elif now - self._stopped_at > ONE_MOMENT:
            os._exit(128 + number)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _heard(_number: int, _frame: object) -> None:
    """Do nothing.

    The thread reads signals from a pipe. Python writes a signal to this pipe only if the signal has
    a handler.
    """


def _give_up(why: str) -> None:
    end = threading.Timer(LAST_WORDS_SECONDS, os._exit, (EX_SOFTWARE,))
    end.daemon = True
    end.start()
    logger.critical("%s: ending here, the journal has all that was committed", why)
    faulthandler.dump_traceback(2, all_threads=True)
    os._exit(EX_SOFTWARE)
