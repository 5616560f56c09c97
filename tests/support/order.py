"""The order in which the workers of a test run take the tests.

The long groups come first, because a worker that began a long group last would run on alone at the
end. Then come the folders whose tests mostly wait, for example for a process to start. While a
worker waits, the other workers use the processor. The remaining tests only compute. They are short,
so all workers end at about the same time.
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
"""Folders whose tests wait most of the time, in the order in which they are run."""


def place(item: pytest.Item) -> int:
    """Return the sort key of a test. Tests with the same key stay in the order of collection."""
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args[0] in LONG:
        return LONG.index(group.args[0])
    root, folder = item.path.parts[-3:-1]
    if root == "tests" and folder in WAITING:
        return len(LONG) + WAITING.index(folder)
    return len(LONG) + len(WAITING)
