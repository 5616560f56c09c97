"""Waking the threads of this process that wait for records."""

import threading


class Bell:
    """Tells the threads of this process that somebody in it has committed something.

    A thread that waits for records reads `rung` first, looks for records, and then waits until
    the bell was rung after that. Commits of other processes do not ring it.
    """

    def __init__(self) -> None:
        self.rung = 0
        self._changed = threading.Condition()

    def ring(self) -> None:
        """Wake those who wait."""
        with self._changed:
            self.rung += 1
            self._changed.notify_all()

    def wait(self, heard: int, seconds: float) -> None:
        """Wait until the bell was rung more than `heard` times, or the time has passed."""
        with self._changed:
            if self.rung == heard:
                self._changed.wait(seconds)
