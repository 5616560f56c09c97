"""Find out what the machine, or the container, gives to this process."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The files that say how much memory a container has, with control groups of version 2 and 1."""


def memory_bytes(limits: Sequence[Path] = LIMITS) -> int:
    """Return how much memory this process may take: that of its container, or of the machine."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in limits:
        with suppress(OSError, ValueError):  # no such file, or the text "max": no limit
            found.append(int(file.read_text(encoding="ascii")))
    return min(found)
