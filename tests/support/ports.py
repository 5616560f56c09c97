"""Find ports that no other test, worker or test run uses.

Each is reserved until the process ends.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

RANGE: Final = range(20_000, 32_000)
"""These ports are below those that the system gives to outgoing connections.

So when a broker is started again, its port is free, and no other program answers on the port of a
dead broker.
"""


def free_port() -> int:
    """Return a port on which no program listens, and which is given to no other test."""
    folder = Path(tempfile.gettempdir(), "fair-allocator-ports")
    folder.mkdir(exist_ok=True)
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        taken = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(taken)
            continue
        if not _is_used(port):
            return port  # the lock on it lasts as long as this process
        os.close(taken)
    raise AssertionError("no port is free")


def _is_used(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
