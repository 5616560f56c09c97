"""Watches over the service's loop: stops it on signals, ends the process if it is stuck.

A thread of its own reads the signals, so that even a loop that hangs in a system call can be
ended. Ending at once loses nothing: a commit happened or it did not (delivered at least once, what
it publishes may come twice).
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
"""Looks without a beat before a loop counts as stuck; a suspended process does not look."""

LAST_WORDS_SECONDS: Final = 5.0
"""How long a report may take; what the loop hangs on may be standard error itself."""

ONE_MOMENT: Final = 0.2
"""Seconds in which signals count as one: some supervisors send theirs to the group as well."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watchdog:
    """Watches over one loop.

    Parameters
    ----------
    stuck_seconds
        Without a beat for so long, the stacks are written and the process exits 70.
    drain_seconds
        How long the loop may take to end after the first signal; then likewise.
    """

    def __init__(self, stuck_seconds: float, drain_seconds: float) -> None:
        self._stuck_seconds = stuck_seconds
        self._drain_seconds = drain_seconds
        self._beats = 0
        self._stopped_at: float | None = None

    def beat(self) -> None:
        """Say that the loop gets on."""
        self._beats += 1

    @contextmanager
    def over(self, stop: Callable[[], None]) -> Iterator[None]:
        """Watch while the block runs; `stop` asks the loop to end. Of the main thread only."""
        awake, wake = os.pipe()
        os.set_blocking(wake, False)
        thread = threading.Thread(
            target=self._watch, args=(awake, stop), name="watchdog", daemon=True
        )
        former = {
            number: signal.signal(number, _heard)
            for number in _SIGNALS
            if number != signal.SIGHUP or not _is_ignored(number)  # as nohup has it
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
            logger.info("%s: draining; once more ends at once, and loses nothing", number.name)
        elif now - self._stopped_at > ONE_MOMENT:
            os._exit(128 + number)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _heard(_number: int, _frame: object) -> None:
    """Let a signal be noticed; the thread reads which one it was."""


def _give_up(why: str) -> None:
    end = threading.Timer(LAST_WORDS_SECONDS, os._exit, (EX_SOFTWARE,))
    end.daemon = True
    end.start()
    logger.critical("%s: ending here, the journal has all that was committed", why)
    faulthandler.dump_traceback(2, all_threads=True)
    os._exit(EX_SOFTWARE)
