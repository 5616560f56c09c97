"""`run` as a process: its first words, signals, a stuck loop, and who may be the service."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator.cli import logs, watchdog
from fair_allocator.cli.watchdog import ONE_MOMENT, Watchdog
from fair_allocator.log import JOURNAL
from fair_allocator.service.announcing import Announcer
from fair_allocator.shard.journal import MANIFEST
from fair_allocator.shard.settings import Tally
from tests.support.cli_log import DEADLINE, Process, Site, eventually
from tests.support.pace import deadline, scaled

pytestmark = pytest.mark.slow

STATES = ("paused", "resumed")

UNIFORM = "[pools.tasks]\narms = { ann = 0 }\nlearner = 'uniform'"

SCRIPT = """
import sys, threading
from fair_allocator.cli import main
from fair_allocator.core.learners.uniform import Uniform

def choose(learner, round):
    print("hanging", file=sys.stderr, flush=True)
    threading.Event().wait()

Uniform.choose = choose
sys.exit(main())
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The command line with a learner on which the loop hangs."""
    file = tmp_path / "hanging.py"
    file.write_text(SCRIPT)
    return file


def answered(site: Site) -> set[str]:
    return {event["request_id"] for event in site.events("assignments", "assignment")}


# -- signals ------------------------------------------------------------------------------------


@pytest.fixture
def _hears_a_hangup() -> Iterator[None]:
    """Let children hear SIGHUP even where the tests themselves were started with `nohup`."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.usefixtures("_hears_a_hangup")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name
)
def test_a_signal_drains_and_exits_0(site: Site, number: signal.Signals) -> None:
    site.request("tasks", "r1", "r2")
    with site.process("run") as process:
        first = json.loads(process.said("serving"))["message"]
        eventually(lambda: answered(site) == {"r1", "r2"})
        process.child.send_signal(number)
        code, said = process.ended()
    assert code == 0
    assert f"{site.configuration.log.path}, 4 partitions; " in first
    assert "tasks (3 arms, max-deficit: at most 0 pulls short), * (2 arms" in first
    said_in_order(said, f"{number.name}: draining", "stopped")
    journal = [r.key for r in site.records(JOURNAL) if r.partition == site.home("tasks")]
    assert journal[-1] == MANIFEST


def said_in_order(said: str, *texts: str) -> None:
    """Check that log lines have these texts, each in a later one; others may lie between."""
    messages = iter([json.loads(line)["message"] for line in said.splitlines()])
    for text in texts:
        assert any(text in message for message in messages), f"{text!r} is missing: {said}"


def test_a_second_signal_exits_at_once_and_loses_nothing(tmp_path: Path, script: Path) -> None:
    site = Site.made(tmp_path, UNIFORM, service="drain_seconds = 600")
    site.request("tasks", "r1", "r2")
    with site.process("run", script=script) as process:
        process.said("hanging")
        process.child.send_signal(signal.SIGTERM)
        process.said("draining")
        assert _insist(process, signal.SIGINT) == 128 + signal.SIGINT
    assert answered(site) == set()
    site.serve()
    assert answered(site) == {"r1", "r2"}


def _insist(process: Process, number: signal.Signals) -> int:
    """Send a signal until the process has ended; those of one moment count as one."""
    limit = deadline(DEADLINE)
    while time.monotonic() < limit:
        process.child.send_signal(number)
        try:
            return process.child.wait(ONE_MOMENT)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it did not end")


def test_signals_of_one_moment_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # A second signal that a busy machine delays by more than that ends this very process.
    monkeypatch.setattr(watchdog, "ONE_MOMENT", scaled(DEADLINE))
    stopped = threading.Event()
    former = signal.getsignal(signal.SIGTERM)
    with Watchdog(600, 600).over(stopped.set):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(scaled(DEADLINE))
    assert signal.getsignal(signal.SIGTERM) is former


@pytest.mark.parametrize(("number", "heard"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_only_a_hangup_stays_ignored_as_nohup_has_it(number: signal.Signals, heard: bool) -> None:
    former = signal.signal(number, signal.SIG_IGN)  # as a shell has SIGINT in the background
    try:
        with Watchdog(600, 600).over(lambda: None):
            assert (signal.getsignal(number) is not signal.SIG_IGN) is heard
    finally:
        signal.signal(number, former)


# -- a loop that is stuck -----------------------------------------------------------------------


def test_a_stuck_loop_exits_70_and_shows_where_it_hangs(tmp_path: Path, script: Path) -> None:
    seconds = scaled(2)  # a slow start must not count as stuck
    site = Site.made(tmp_path, UNIFORM, service=f"stuck_seconds = {seconds:g}")
    site.request("tasks", "r1")
    with site.process("run", script=script) as process:
        code, said = process.ended()
    assert code == 70
    assert f"stuck for {seconds:g} s (service.stuck_seconds)" in said
    assert f'File "{script}", line 8 in choose' in said


def test_a_drain_that_takes_too_long_exits_70(tmp_path: Path, script: Path) -> None:
    site = Site.made(tmp_path, UNIFORM, service="drain_seconds = 0.5")
    site.request("tasks", "r1")
    with site.process("run", script=script) as process:
        process.said("hanging")
        process.child.send_signal(signal.SIGTERM)
        code, said = process.ended()
    assert code == 70
    assert "did not end within 0.5 s (service.drain_seconds)" in said
    assert "in choose" in said


# -- who may be the service ---------------------------------------------------------------------


def test_a_second_service_is_refused_with_69(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    with site.process("run") as process:
        process.said("partition 3")
        assert site("run") == 69
        *_, fatal = capsys.readouterr().err.splitlines()
        line = json.loads(fatal)
        assert line["level"] == "critical"
        assert f"process {process.child.pid}: stop that one first" in line["message"]


def test_offsets_that_somebody_moved_are_refused_until_accepted(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.request("tasks", "r1")
    site.serve()
    with site.service() as service:
        service.step()
        service.log.commit([], {("requests", site.home("tasks")): 0}, {})
    assert site("run") == 78
    assert "Run with --accept-offsets" in capsys.readouterr().err
    site.request("tasks", "r2")
    with site.process("run", "--accept-offsets") as process:
        eventually(lambda: answered(site) == {"r1", "r2"})
        process.child.terminate()
        assert process.ended()[0] == 0
    assert len(site.events("assignments", "assignment")) == 2


# -- output -------------------------------------------------------------------------------------


def test_a_pipe_that_nobody_reads_is_quiet() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fair_allocator", "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


def test_log_lines_are_text_on_a_terminal_and_json_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, elsewhere = Terminal(), io.StringIO()
    logger = logging.getLogger("fair_allocator.test")
    former = list(logging.getLogger().handlers)
    try:
        logs.set_up(terminal)
        logger.info("one %s", "thing")
        logs.set_up(elsewhere)
        try:
            raise ValueError("the cause")
        except ValueError:
            logger.exception("another")
    finally:
        logging.getLogger().handlers[:] = former
    assert terminal.getvalue().endswith(" INFO     one thing\n")
    line = json.loads(elsewhere.getvalue())
    assert (line["level"], line["logger"], line["message"]) == (
        "error",
        "fair_allocator.test",
        "another",
    )
    assert "ValueError: the cause" in line["exception"]


def test_every_line_of_a_service_is_json_also_the_last(tmp_path: Path) -> None:
    broken = Site.made(tmp_path, "[pools.tasks]\narms = { ann = 2 }")
    with broken.process("run") as process:
        code, said = process.ended()
    (line,) = map(json.loads, said.splitlines())
    assert (code, line["level"]) == (78, "critical")
    assert "pools.tasks.arms.ann: quota must be in [0, 1], got 2 (exit 78)" in line["message"]


def test_controls_and_the_first_dead_letter_of_each_reason_are_logged(site: Site) -> None:
    with site.process("run") as process:
        process.said("serving")
        for action in ("pause", "resume"):
            assert site("send", "control", "--pool", "tasks", "--action", action) == 0
        arm = ("--action", "set-arm", "--arm", "dan=0.1")
        assert site("send", "control", "--pool", "tasks", *arm) == 0
        for _ in range(3):
            site.send("requests", "tasks", {"pool": "tasks", "slots": 1})
        eventually(lambda: len(site.records("dead-letters")) == 3)
        process.child.terminate()
        code, said = process.ended()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    messages = [(line["level"], line["message"]) for line in lines]
    paused, resumed = (("info", f"pool 'tasks' was {word} by a control") for word in STATES)
    assert messages.index(paused) < messages.index(resumed)
    assert ("info", "pool 'tasks' was changed (set-arm) by a control") in messages
    (warning,) = (message for level, message in messages if level == "warning")
    assert "dead-letters list --reason bad-event" in warning


def test_less_severe_lines_are_left_out_if_told_so(site: Site) -> None:
    site.file.write_text(
        site.file.read_text().replace("[observe]\n", '[observe]\nlog_level = "warning"\n')
    )
    site.request("tasks", "r1")
    with site.process("run") as process:
        eventually(lambda: answered(site) == {"r1"})
        process.child.terminate()
        assert process.ended() == (0, "")


def test_nothing_is_said_to_be_served_before_the_log_is_open(tmp_path: Path) -> None:
    site = Site.made(tmp_path)
    site.configuration.log.path.mkdir()
    with site.process("run") as process:
        code, said = process.ended()
    assert code != 0
    assert "serving" not in said


def test_many_controls_of_a_commit_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fair_allocator")
    announcer, tally = Announcer(), Tally(controls=[("pause", "tasks", "ann", False)] * 5_000)
    announcer.announce(tally)
    assert len(caplog.messages) == 11
    assert caplog.messages[0] == "pool 'tasks' was paused by a control, by 'ann'"
    assert caplog.messages[-1] == "and 4990 more controls were applied"
