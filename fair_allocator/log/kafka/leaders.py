"""Wait until new topics can be used: the leader of a new partition may not be ready at once."""

import time
from collections.abc import Iterable
from typing import Final

from fair_allocator.log.kafka.driver import Admin, DriverError, Edge, NotPermitted, Unreachable

PAUSE_SECONDS: Final = 0.05


def await_leaders(admin: Admin, topics: Iterable[str], patience: float) -> None:
    """Wait until every partition of these topics has a leader that answers.

    Raises
    ------
    Unreachable
        If this takes longer than `patience`.
    """
    wanted = set(topics)
    deadline = time.monotonic() + patience
    while True:
        try:
            counts = admin.partition_counts()
            missing = wanted - counts.keys()
            why: object = f"there is no {', '.join(sorted(missing))}"
            if not missing:
                admin.offsets([(t, p) for t in sorted(wanted) for p in range(counts[t])], Edge.END)
                return
        except NotPermitted:
            raise
        except DriverError as error:
            why = error
        if time.monotonic() > deadline:
            raise Unreachable(f"the new topics cannot be used yet: {why}")
        time.sleep(PAUSE_SECONDS)
