"""Check that the machine has what a test needs. Otherwise the test is skipped with the reason.

If the variable `FAIR_ALLOCATOR_REQUIRE_ALL` is set, no test may be skipped, so the test fails
instead. `scripts/debian-packages` installs the programs if possible.
"""

import os
import shutil
from typing import Final, NoReturn

import pytest

REQUIRE_ALL: Final = "FAIR_ALLOCATOR_REQUIRE_ALL"


def needs(program: str) -> str:
    """Return the path of a program. If there is none, skip the test or fail."""
    path = shutil.which(program)
    if path is None:
        lacks(f"no program {program!r} here: scripts/debian-packages installs it as root")
    return path


def lacks(reason: str) -> NoReturn:
    """Skip the test with this reason, or fail if no test may be skipped."""
    if os.environ.get(REQUIRE_ALL):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set)", pytrace=False)
    pytest.skip(reason)
