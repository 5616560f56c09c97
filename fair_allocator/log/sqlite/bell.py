"""Wake the threads of this process that wait for records."""

import threading
from collections.abc import Collection, Iterable
from weakref import WeakSet


class Ear:
    """Lets one thread wait for records of some topics.

    The thread first calls `forget`, then looks for records, then calls `wait`.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._rung = threading.Event()

    def forget(self) -> None:
        """Forget all earlier calls of `hear`."""
        self._rung.clear()

    def hear(self) -> None:
        """Wake the thread that waits."""
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Wait for a call of `hear`, or until the time has passed; tell whether there was one."""
        return self._rung.wait(seconds)


class Bell:
    """Wakes the threads of this process when one of them has appended records to a log.

    Records that other processes append wake no thread.
    """

    def __init__(self) -> None:
        self._ears: WeakSet[Ear] = WeakSet()
        self._lock = threading.Lock()

    def listen(self, topics: Iterable[str]) -> Ear:
        """Return an ear for these topics. It works only while the caller keeps it."""
        ear = Ear(topics)
        with self._lock:
            self._ears.add(ear)
        return ear

    def ring(self, topics: Collection[str]) -> None:
        """Wake the threads that listen to one of the topics."""
        with self._lock:
            ears = list(self._ears)
        for ear in ears:
            if not ear.topics.isdisjoint(topics):
                ear.hear()
