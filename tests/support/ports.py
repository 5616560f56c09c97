"""Ports that no other test, worker or run has: taken once, and kept until this process ends."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

RANGE: Final = range(20_000, 32_000)
"""Below those that the system gives to connections: a broker that is started again finds its port
free, and nobody answers on one that is to be dead."""


def free_port() -> int:
    """Return a port that nobody listens on, and that nobody else is given."""
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
            return port  # locked for as long as this process lives
        os.close(taken)
    raise AssertionError("no port is free")


def _is_used(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
