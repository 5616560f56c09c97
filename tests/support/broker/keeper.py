"""Run one broker for all workers of a test run, and end it after the last worker has ended.

Every worker holds a shared lock on a file. This program waits for the exclusive lock. It gets the
lock when all workers have ended, normally or not.
"""

import fcntl
import os
import signal
import sys
from pathlib import Path

from tests.support.broker.java import JavaBroker

USERS = "users"
READY = "bootstrap"


def keep(folder: Path) -> None:
    """Run a broker in `folder` for as long as any worker holds the folder's lock."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the workers, and then this program
    broker = JavaBroker(folder)
    with (folder / USERS).open("a") as users:
        try:
            broker.start()
            partial = folder / f"{READY}.partial"
            partial.write_text(broker.bootstrap)
            partial.rename(folder / READY)
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            broker.stop()
            (folder / READY).unlink(missing_ok=True)


if __name__ == "__main__":
    os.setsid()
    keep(Path(sys.argv[1]))
