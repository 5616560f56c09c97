"""What a test needs of the machine: it is there, or the test is skipped with the reason.

Where `FAIR_ALLOCATOR_REQUIRE_ALL` is set nothing may be skipped, and the reason is a failure.
`scripts/debian-packages` installs the programs where it can.
"""

import os
import shutil
from typing import Final, NoReturn

import pytest

REQUIRE_ALL: Final = "FAIR_ALLOCATOR_REQUIRE_ALL"


def needs(program: str) -> str:
    """Return the path of a program, or end the test."""
    path = shutil.which(program)
    if path is None:
        lacks(f"no program {program!r} here: scripts/debian-packages installs it as root")
    return path


def lacks(reason: str) -> NoReturn:
    """Skip the test for `reason`, or fail where everything is required."""
    if os.environ.get(REQUIRE_ALL):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set)", pytrace=False)
    pytest.skip(reason)
