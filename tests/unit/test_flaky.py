"""The command that runs tests again and again: what it counts, keeps and leaves behind."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import flaky
from tests.support.pace import deadline
from tests.support.signals import states

pytestmark = pytest.mark.slow

SOMETIMES = """
from pathlib import Path
def test_that_passes_every_other_time():
    before = Path(__file__).with_name("before")
    if before.exists():
        before.unlink()
        raise AssertionError("this time it fails")
    before.touch()
def test_that_always_passes():
    pass
"""


def test_what_fails_now_and_then_is_counted_and_its_output_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_sometimes.py"
    file.write_text(SOMETIMES)
    options = ["--times", "2", "--workers", "0"]
    assert flaky.main([*options, str(file), "-p", "no:cacheprovider"]) == 1
    said = capsys.readouterr().out
    assert "1 of 2, idle: passed" in said
    assert "| idle | 2 | 1 |" in said
    assert re.search(r"\| idle \| \S*::test_that_passes_every_other_time \| 1 of 2 \|", said)
    assert "test_that_always_passes" not in said
    found = re.search(r"what failed is in (\S+)", said)
    assert found
    (kept,) = Path(found[1]).iterdir()
    assert kept.name == "2-idle.log"
    assert "this time it fails" in kept.read_text()


def test_cores_are_busy_only_during_a_run() -> None:
    with flaky.busy(2) as burners:
        for each in burners:
            assert states(each.pid)
    for each in burners:
        assert each.returncode is not None


def test_a_burner_ends_with_the_process_that_started_it() -> None:
    program = (
        "from tests import flaky\n"
        "with flaky.busy(1) as (burner,):\n"
        "    print(burner.pid, flush=True)\n"
        "    import os; os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    pid, limit = int(done.stdout), deadline(30)
    while states(pid):
        assert time.monotonic() < limit
        time.sleep(0.01)
