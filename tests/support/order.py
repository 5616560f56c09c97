"""The order in which the workers of a run take the tests.

The long groups go first: a worker that takes one at the end runs on alone. Then come the folders
whose tests wait, for a session to end or a process to start. Meanwhile their processors serve the
other workers. The rest only computes, test by test, so that all workers end at about the same time.
"""

from typing import Final

import pytest

LONG: Final = (
    "cluster",
    "compiled",
    "broken broker",
    "browser",
    "test_outage",
    "client-conformance",
    "live prometheus",
    "wheel",
)
"""Groups of tests that one worker runs one after the other, the longest first."""

WAITING: Final = ("chaos", "kafka", "conformance", "client", "deploy", "front", "observe", "web")
"""Folders whose tests wait most of their time, in the order in which they are played."""


def place(item: pytest.Item) -> int:
    """Return where a test stands; tests of one place keep the order in which they were found."""
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args[0] in LONG:
        return LONG.index(group.args[0])
    root, folder = item.path.parts[-3:-1]
    if root == "tests" and folder in WAITING:
        return len(LONG) + WAITING.index(folder)
    return len(LONG) + len(WAITING)
