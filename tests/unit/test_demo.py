"""The demo: its worlds, what it shows and says, and the load by itself."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from math import floor
from pathlib import Path
from statistics import quantiles
from struct import unpack
from threading import Thread
from typing import Self

import pytest
from rich.console import Console

from fair_allocator.audit import Audit, Report
from fair_allocator.cli import demo as command
from fair_allocator.cli.options import BadUsage
from fair_allocator.demo.load import Load
from fair_allocator.demo.play import Play, audited
from fair_allocator.demo.scenarios import SCENARIOS, crowd, plain, wireless
from fair_allocator.demo.serve import configured, make_service, serving
from fair_allocator.demo.story import told
from fair_allocator.demo.view import ScreenFrame, Terminal, share_bar
from fair_allocator.errors import LogUnavailable
from fair_allocator.log import LogClient
from fair_allocator.wiring import open_client

pytestmark = pytest.mark.slow

SEED = 9


def demo(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    arguments = parser.parse_args(["demo", *argv])
    code: int = arguments.run(arguments)
    return code


@contextmanager
def served(path: Path) -> Iterator[LogClient]:
    """Serve a log in a thread."""
    configuration = configured(path, SEED)
    service = make_service(configuration)
    with open_client(configuration, create=True) as client:
        thread = Thread(target=service.run)
        thread.start()
        try:
            yield client
        finally:
            service.stop()
            thread.join()


def played(path: Path, scenario: str, requests: int) -> tuple[Play, Report]:
    world = SCENARIOS[scenario](SEED, requests)
    with served(path) as client:
        play = Play(client, world, requests, SEED, check=lambda: None)
        play.open()
        while play.left:
            play.step()
        play.settle()
        return play, audited(client)


@pytest.fixture(scope="module")
def wireless_play(tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Report]:
    return played(tmp_path_factory.mktemp("demo") / "log.db", "wireless", 2_000)


# -- worlds -----------------------------------------------------------------------------------


def test_accuracies_have_the_published_quantiles() -> None:
    drawn = [arm.skill for seed in range(200) for arm in plain(seed, 1).arms]
    tenths = quantiles(drawn, n=10)
    # 4,800 draws: the standard errors are below 0.003.
    assert [tenths[0], tenths[4], tenths[8]] == pytest.approx([0.58, 0.70, 0.82], abs=0.015)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rewards_have_the_means_and_losses_the_world_says(scenario: str) -> None:
    world, count = SCENARIOS[scenario](SEED, 100), 4_000
    for arm in (world.arms[0], world.arms[-1]):
        rewards = [world.reward(number, arm.name) for number in range(count)]
        assert all(0 <= reward <= 1 for reward in rewards)
        # A reward in [0, 1] has a standard deviation of at most 0.5: four standard errors.
        assert sum(rewards) / count == pytest.approx(arm.mean, abs=4 * 0.5 / count**0.5)
    lost = sum(world.delay(number) is None for number in range(count))
    assert lost / count == pytest.approx(world.lost, abs=4 * (world.lost / count) ** 0.5)
    declined = sum(world.declines(number, world.arms[0].name) for number in range(count))
    assert declined / count == pytest.approx(
        world.declining, abs=4 * (world.declining / count) ** 0.5
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_world_depends_on_its_seed_alone(scenario: str) -> None:
    one, same, other = (SCENARIOS[scenario](seed, 100) for seed in (1, 1, 2))
    assert one.arms == same.arms
    assert one.arms != other.arms
    name = one.arms[0].name
    assert one.reward(7, name) == same.reward(7, name)


def test_newcomers_are_there_from_the_middle_on() -> None:
    world = wireless(SEED, 1_000)
    assert "visitor" not in world.quotas(499)
    assert "visitor" in world.quotas(500)


# -- the command ------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_ends_with_a_verdict_and_a_picture(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "pictures" / "demo.png"
    code = demo("--fast", "--requests", "1200", "--scenario", scenario, "--plot", str(picture))
    output = capsys.readouterr().out
    assert code == 0
    assert "1,200 of 1,200" in output
    assert "Every guarantee kept: yes" in output
    assert ("Plain UCB1" if scenario == "plain" else "LFG") in output
    assert "The longest wait of any" in output
    assert str(picture) in output
    assert "\x1b" not in output
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = unpack(">II", content[16:24])
    assert width > 1_200
    assert height > 700
    assert len(content) > 50_000


def test_a_temporary_log_is_gone_afterwards_and_a_named_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    assert demo("--fast", "--requests", "200", "--no-plot") == 0
    assert list(elsewhere.iterdir()) == []
    log = tmp_path / "kept.db"
    assert demo("--fast", "--requests", "200", "--no-plot", "--log", str(log)) == 0
    with open_client(configured(log, SEED)) as client:
        assert audited(client).pools[0].rounds >= 200
    with pytest.raises(BadUsage, match="is there already"):
        demo("--log", str(log))


def test_without_matplotlib_the_demo_goes_on(
    tmp_path: Path,
    wireless_play: tuple[Play, Report],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = argparse.Namespace(no_plot=False, plot=tmp_path / "demo.png")
    command._draw(arguments, wireless_play[0], Console())
    assert "matplotlib is missing" in capsys.readouterr().out


class Interrupting:
    """A view that presses Ctrl-C as soon as something is shown."""

    def __init__(self, _console: Console) -> None:
        self.shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, play: Play) -> None:
        self.shown += 1
        if self.shown == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_it_with_the_verdict_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "view_for", Interrupting)
    before = signal.getsignal(signal.SIGINT)
    assert demo("--fast", "--no-plot") == 0
    output = capsys.readouterr().out
    assert "Stopped early" in output
    assert "20 tasks in" in output
    assert "Every guarantee kept: yes" in output
    assert signal.getsignal(signal.SIGINT) is before


def test_a_broken_guarantee_is_said_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = Audit()
    audit.feed(0, 0, b"{}")
    monkeypatch.setattr(command, "audited", lambda _client: audit.report())
    assert demo("--fast", "--no-plot", "--requests", "200") == 1
    assert "Every guarantee kept: NO" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [["--requests", "0"], ["--rate", "-1"], ["--rate", "nan"], ["--plot", "a.gif"]]
)
def test_values_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo(*wrong)


def test_a_service_that_dies_is_told_of(tmp_path: Path) -> None:
    damaged = tmp_path / "log.db"
    damaged.write_bytes(b"no log at all" * 1_000)
    with serving(damaged, SEED, SCENARIOS["wireless"](SEED, 1), 1) as service:

        def wait() -> None:
            while True:
                service.check()

        with pytest.raises(LogUnavailable, match="the service ended with"):
            wait()


# -- what is played ---------------------------------------------------------------------------


def test_quotas_are_kept_and_lfg_is_short_of_some(wireless_play: tuple[Play, Report]) -> None:
    play, report = wireless_play
    assert report.ok
    assert play.verdict.ok
    assert play.ours.peak == 0
    assert play.ours.rounds == play.rival.rounds == 2_000
    assert play.ours.short() == []
    assert play.rival.peak > 0
    assert play.rival.gap > play.ours.gap


def test_newcomers_get_their_share_from_joining_on(wireless_play: tuple[Play, Report]) -> None:
    play, _ = wireless_play
    visitor = play.ours.rows["visitor"]
    assert visitor.joined == 1_000
    assert 0 < visitor.own < 3 * 1_000
    assert visitor.pulls >= floor(visitor.arm.quota * visitor.own)
    assert any(text.startswith("visitor came into the cell") for text in told(*wireless_play))


def test_every_block_brings_a_reward(wireless_play: tuple[Play, Report]) -> None:
    play, _ = wireless_play
    assert len(play.load.grading) == 0
    assert play.load.grading.graded == play.ours.given == 3 * 2_000
    assert sum(row.observed for row in play.ours.rows.values()) == play.load.grading.graded


@pytest.fixture(scope="module")
def crowd_play(tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Report]:
    return played(tmp_path_factory.mktemp("demo") / "log.db", "crowd", 1_200)


def test_the_board_counts_what_the_audit_does(crowd_play: tuple[Play, Report]) -> None:
    play, report = crowd_play
    assert report.ok
    (pool,) = play.verdict.pools  # of the records that the board saw
    assert pool.rounds == play.ours.rounds
    assert pool.forced + pool.learned == play.ours.given
    assert (pool.worst, pool.longest_gap) == (play.ours.peak, play.ours.gap)


def test_declined_tasks_go_to_somebody_else(crowd_play: tuple[Play, Report]) -> None:
    play, _ = crowd_play
    declined = play.load.grading.declined
    assert declined > 50
    # Nearly all were given to somebody else; the last ones still wait for an answer.
    assert play.ours.rounds >= 1_200 + declined // 2
    assert play.rival.given == pytest.approx(play.ours.given, rel=0.03)


def test_nobody_is_given_what_he_or_she_cannot_do(crowd_play: tuple[Play, Report]) -> None:
    world = crowd(SEED, 1_200)
    names = [arm.name for arm in world.arms]
    for number in range(50):
        kind, able = world.kind(number), world.able(number, names)
        assert able == [n for n in names if not kind or kind in world.skills[n]]
        assert len(set(able) - world.asleep(number)) >= 3
    assert {world.kind(number) for number in range(200)} == {"", "french", "medical"}
    assert world.asleep(0) != world.asleep(world.shift)


def test_a_run_depends_on_its_seed_alone(tmp_path: Path) -> None:
    one, other = (played(tmp_path / f"{run}.db", "plain", 1_000)[0] for run in "ab")
    assert one.ours.rows == other.ours.rows
    assert one.rival.rows == other.rival.rows
    assert one.ours.moments == other.ours.moments


# -- what is seen -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (130, 50)])
def test_the_picture_fits_the_terminal(size: tuple[int, int], tmp_path: Path) -> None:
    world = plain(SEED, 600)
    with served(tmp_path / "log.db") as client:
        play = Play(client, world, 600, SEED, check=lambda: None)
        play.open()
        while play.left:
            play.step()
    width, height = size
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True)
    with Terminal(console) as view:
        view.show(play)
    lines = console.render_lines(ScreenFrame(play, width, height).draw(), pad=False)
    texts = ["".join(segment.text for segment in line).rstrip() for line in lines]
    assert len(texts) < height
    assert max(map(len, texts)) <= width
    assert not any("…" in text for text in texts)
    assert any("Every guarantee kept:  YES" in text for text in texts)


def test_a_bar_reaches_the_mark_only_if_the_quota_was_kept() -> None:
    def draw(ratio: float, kept: bool) -> str:
        return share_bar(ratio, 8, kept=kept, ascii=True).plain

    assert draw(1.0, True) == "####|"
    assert draw(0.99, False) == "### |"
    assert draw(1.75, True) == "####|##"
    assert draw(5.0, True) == "####|##>"
    assert draw(0.0, False) == "    |"


# -- the load alone ---------------------------------------------------------------------------


def test_the_load_feeds_a_log_that_is_served_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.db"
    with served(log) as client:
        for _ in range(2):  # a second load on the same log asks anew
            assert (
                demo("--load-only", "--log", str(log), "--requests", "300", "--rate", "3000") == 0
            )
        report = audited(client)
        (pool,) = report.pools
        assert report.ok
        assert pool.rounds == 600
        rewards = sum(client.end_offset("rewards", p) for p in range(client.partitions))
    assert "300 requests sent, 300 answered" in capsys.readouterr().out
    lost = sum(plain(SEED, 300).delay(number) is None for number in range(300))
    assert rewards == 2 * (300 - lost)


def test_the_load_sees_only_answers_to_itself(tmp_path: Path) -> None:
    world = wireless(SEED, 100)
    with served(tmp_path / "log.db") as client:
        loads = [Load(client, world), Load(client, world)]
        for load in loads:
            load.open()
            while not load.ready:
                load.look()
        for load in loads:
            load.send(20)
        for load in loads:
            while load.backlog:
                load.look()
            assert load.answered == 20


def test_a_log_that_is_not_there_is_not_fed(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable):
        demo("--load-only", "--log", str(tmp_path / "nowhere" / "log.db"))
