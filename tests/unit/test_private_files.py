"""Files are made for their owner alone, and nobody is shut out who was let in on purpose."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import SecretStr

from fair_allocator.config.secret import secret_of
from fair_allocator.log.sqlite.storage import File
from tests.support.cli_log import Site

OTHER_PYTHON = "/usr/bin/python3"
"""A Python that every user may run; that of the tests may lie where only its owner looks."""

TAKE_LOCKS = """
import fcntl, sys
for end in ("", ".lock", ".turn"):
    try:
        file = open(sys.argv[1] + end, "rb")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("held")
    except PermissionError:
        print("refused")
"""


@pytest.fixture(autouse=True, params=[0o022, 0o000, 0o177], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def directory(tmp_path: Path, umask: int) -> Path:
    os.umask(0o022)
    (tmp_path / "log").mkdir()
    os.umask(umask)
    return tmp_path / "log"


def test_a_log_and_its_companions_are_their_owners(directory: Path) -> None:
    path = directory / "log.db"
    file = File(path)
    file.claim()
    store = file.open(1)
    with store.transaction() as connection:
        connection.execute("UPDATE meta SET value = value")
        found = {each.name: mode(each) for each in directory.iterdir()}
    store.close()
    file.release()
    assert {"log.db", "log.db.lock", "log.db.turn", "log.db-wal", "log.db-shm"} == found.keys()
    assert {each & 0o177 for each in found.values()} == {0}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_can_neither_read_a_log_nor_hold_its_locks() -> None:
    """The directory lets everybody in, so that only the modes of the files stand in the way."""
    with TemporaryDirectory(prefix="fair-allocator-open-") as name:
        os.chmod(name, 0o755)
        path = Path(name, "log.db")
        file = File(path)
        file.claim()
        file.open(1).close()
        file.release()
        tried = subprocess.run(
            [OTHER_PYTHON, "-c", TAKE_LOCKS, path],
            user=65_534,
            group=65_534,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert tried.stdout.split() == ["refused"] * 3, tried.stdout
        file.claim()  # and the service starts
        file.release()


def test_a_log_that_was_shared_stays_shared_with_its_companions(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = directory / "log.db"
    File(path).open(1).close()
    path.chmod(0o664)
    file = File(path)
    file.claim()
    file.release()
    assert (mode(path), mode(f"{path}.lock")) == (0o664, 0o664)
    assert "open to every user" in caplog.text
    path.chmod(0o660)
    caplog.clear()
    file.claim()
    file.release()
    assert mode(f"{path}.lock") == 0o660, "one that older releases made is narrowed"
    assert caplog.text == ""


def test_an_export_is_its_owners(tmp_path: Path, umask: int) -> None:
    os.umask(0o022)
    site = Site.made(tmp_path)
    os.umask(umask)
    site.request("tasks", "r")
    site.serve()
    assert site("export", "--out", str(tmp_path / "pools.ndjson")) == 0
    assert mode(tmp_path / "pools.ndjson") & 0o177 == 0


def test_a_secret_that_everybody_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("sesame\n")
    file.chmod(0o600)
    assert secret_of("observe.token", SecretStr(""), file) == "sesame"
    assert caplog.text == ""
    file.chmod(0o644)
    assert secret_of("observe.token", SecretStr(""), file) == "sesame"
    assert "observe.token_file: every user of this machine can read" in caplog.text
    assert "sesame" not in caplog.text
