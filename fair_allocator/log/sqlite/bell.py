"""Waking the threads of this process that wait for records."""

import threading
from collections.abc import Collection, Iterable
from weakref import WeakSet


class Ear:
    """Hears of records of some topics, for one thread: it calls `forget`, looks, and may `wait`."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._rung = threading.Event()

    def forget(self) -> None:
        """Take no account of what was heard so far."""
        self._rung.clear()

    def hear(self) -> None:
        """Wake the thread that waits."""
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Wait until there are records, or the time has passed; tell whether there are."""
        return self._rung.wait(seconds)


class Bell:
    """Tells the threads of this process that somebody in it has appended records to a log.

    What other processes append does not ring it.
    """

    def __init__(self) -> None:
        self._ears: WeakSet[Ear] = WeakSet()
        self._lock = threading.Lock()

    def listen(self, topics: Iterable[str]) -> Ear:
        """Return an ear for topics, which listens for as long as somebody keeps it."""
        ear = Ear(topics)
        with self._lock:
            self._ears.add(ear)
        return ear

    def ring(self, topics: Collection[str]) -> None:
        """Wake those who listen to one of the topics."""
        with self._lock:
            ears = list(self._ears)
        for ear in ears:
            if not ear.topics.isdisjoint(topics):
                ear.hear()
