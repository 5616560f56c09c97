"""Alive while the loop turns and gets on; ready while it serves."""

from pathlib import Path
from unittest.mock import patch

import httpx
import pytest

from fair_allocator.cli import main
from fair_allocator.config import Configuration, LogSection, ObserveSection
from fair_allocator.errors import CommitFailed, ConfigurationError, LogUnavailable
from fair_allocator.observe.health import STEP_SECONDS, Health, Verdict
from fair_allocator.observe.observer import Observer
from fair_allocator.serving import observed, observed_aside
from tests.support.pace import scaled
from tests.support.served import ARMS, Served

GOOD = Verdict(True, "ok")
WAITING = Verdict(False, "the log keeps the loop waiting")
POLL_SECONDS = 2.0


class Loop:
    """A service whose time is set by hand, with its health."""

    def __init__(self) -> None:
        self.now = 100.0
        self.served = Served({"p": {"arms": ARMS}})
        self.observer = Observer(monotonic=lambda: self.now)
        self.health = Health(self.observer, 60.0, POLL_SECONDS, monotonic=lambda: self.now)
        self.served.turn()
        self.served.service._probe = self.observer
        self.served.service._heartbeat = self.observer.beat


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_before_the_first_step_it_lives_and_is_not_ready(loop: Loop) -> None:
    assert loop.health.live() == GOOD
    assert loop.health.ready() == Verdict(False, "no log yet")


def test_after_a_step_it_is_ready(loop: Loop) -> None:
    loop.served.turn()
    assert loop.health.live() == loop.health.ready() == GOOD


def test_a_loop_that_does_not_turn_is_dead(loop: Loop) -> None:
    loop.served.turn()
    loop.now += 61
    assert not loop.health.live().good
    assert not loop.health.ready().good


def test_a_loop_whose_commits_fail_for_long_is_dead(loop: Loop) -> None:
    loop.served.turn()
    loop.served.request("r1")
    with patch.object(loop.served.service.log, "commit", side_effect=CommitFailed("no")):
        loop.served.service.step()
        assert loop.health.live() == GOOD
        assert loop.health.ready() == Verdict(False, "the log fails", "no")
        loop.now += 61
        loop.served.service.step()
    assert loop.health.live() == Verdict(False, "no step has succeeded for too long")
    loop.served.turn()
    assert loop.health.ready() == GOOD


def test_a_loop_whose_step_hangs_lives_on_and_is_not_ready(loop: Loop) -> None:
    loop.served.turn()
    loop.now += STEP_SECONDS + POLL_SECONDS
    assert loop.health.ready() == GOOD
    loop.now += 0.1
    assert loop.health.ready() == WAITING
    assert loop.health.live() == GOOD
    loop.served.turn()
    assert loop.health.ready() == GOOD


def test_a_loop_that_waits_for_records_stays_ready(loop: Loop) -> None:
    for _ in range(10):
        loop.served.turn()
        loop.now += POLL_SECONDS
        assert loop.health.ready() == GOOD


def test_a_commit_that_hangs_is_seen_before_it_fails(loop: Loop) -> None:
    loop.served.turn()
    seen: list[Verdict] = []

    def hang(*_arguments: object) -> None:
        loop.now += STEP_SECONDS + POLL_SECONDS + 0.1
        seen.append(loop.health.ready())
        raise CommitFailed("no")

    loop.served.request("r1")
    with patch.object(loop.served.service.log, "commit", side_effect=hang):
        loop.served.service.step()
    assert seen == [WAITING]
    assert loop.health.ready() == Verdict(False, "the log fails", "no")
    loop.served.turn()
    assert loop.health.ready() == GOOD


def test_a_restore_may_take_its_time(loop: Loop) -> None:
    loop.served.turn()
    loop.observer.restoring("partition 0")
    loop.now += 600
    loop.observer.beat()
    assert loop.health.live() == GOOD
    assert loop.health.ready() == Verdict(False, "restoring: partition 0")


def test_without_partitions_it_is_ready_once_it_is_told_that_it_has_none() -> None:
    now = [0.0]
    observer = Observer(monotonic=lambda: now[0])
    health = Health(observer, 60.0, monotonic=lambda: now[0])
    observer.stepped([], {}, {})
    assert health.live() == GOOD
    assert health.ready() == Verdict(False, "no partitions assigned yet")
    observer.owned("gained", [])
    assert health.ready() == GOOD
    assert not any(observer.view(0.0).tallies.rebalances.values())


def test_a_step_that_fails_with_nothing_owned_has_not_succeeded() -> None:
    observer = Observer()
    health = Health(observer, 60.0)
    observer.failed(LogUnavailable("the disk is full"))
    observer.stepped([], {}, {})
    assert observer.stepped_at is None
    assert health.ready() == Verdict(False, "the log fails", "the disk is full")
    observer.restoring("partition 0")
    assert health.ready() == Verdict(False, "restoring: partition 0", "the disk is full")
    observer.stepped([], {}, {})
    assert health.ready() == Verdict(False, "no partitions assigned yet")


def test_what_fails_is_said_to_those_who_may_read(tmp_path: Path) -> None:
    observer = Observer()
    observer.failed(LogUnavailable("/data/log.db: the disk is full"))
    for token, said in (("", "the log fails\n"), ("secret", "the log fails: /data/log.db: the ")):
        with observed(configured(tmp_path, port=0, token="secret"), observer) as url:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = httpx.get(f"{url}readyz", headers=headers, timeout=scaled(30))
        assert answer.status_code == 503
        assert answer.text.startswith(said)


# -- what is started --------------------------------------------------------------------------


def configured(tmp_path: Path, **settings: object) -> Configuration:
    observe = ObserveSection.model_validate(settings)
    return Configuration(log=LogSection(path=tmp_path / "log.db"), observe=observe)


def test_a_port_that_is_taken_ends_the_service_unless_it_need_not_be_had(tmp_path: Path) -> None:
    with observed(configured(tmp_path, port=0), Observer()) as first:
        assert first is not None
        port = int(first.rstrip("/").rpartition(":")[2])
        taken, why = configured(tmp_path, port=port), f"port {port}: Address already in use; set"
        with pytest.raises(ConfigurationError, match=why), observed(taken, Observer()):
            pass
        with pytest.raises(ConfigurationError, match=why), observed_aside(taken, Observer()):
            pass
        spare = configured(tmp_path, port=port, port_required=False)
        with observed(spare, Observer()) as second:
            assert second is None


def test_a_service_whose_port_is_taken_ends_with_78(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observed(configured(tmp_path, port=0), Observer()) as first:
        assert first is not None
        port = first.rstrip("/").rpartition(":")[2]
        monkeypatch.setenv("FAIR_ALLOCATOR_LOG__PATH", str(tmp_path / "log.db"))
        monkeypatch.setenv("FAIR_ALLOCATOR_OBSERVE__PORT", port)
        assert [main([command]) for command in ("run", "gateway")] == [78, 78]


def test_no_port_means_no_server(tmp_path: Path) -> None:
    with observed(configured(tmp_path, port="none"), Observer()) as url:
        assert url is None


def test_the_token_may_be_in_a_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    configuration = configured(tmp_path, port=0, token_file=str(file))
    with observed(configuration, Observer()) as url:
        assert url is not None
    assert "hidden" not in repr(configured(tmp_path, token="hidden"))


@pytest.mark.parametrize("content", [None, "", "\n", b"\xff"])
def test_a_token_that_cannot_be_told_is_refused(
    tmp_path: Path, content: str | bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with (
        pytest.raises(ConfigurationError, match=r"observe\.token_file"),
        observed(configured(tmp_path, port=0, token_file=str(file)), Observer()),
    ):
        pass


def test_the_file_of_a_token_is_not_read_without_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * 1_000_001)
    with (
        pytest.raises(ConfigurationError, match=r"longer than 1,000,000 bytes"),
        observed(configured(tmp_path, port=0, token_file=str(file)), Observer()),
    ):
        pass


def test_two_tokens_are_one_too_many(tmp_path: Path) -> None:
    both = configured(tmp_path, port=0, token="a", token_file=str(tmp_path / "token"))
    with pytest.raises(ConfigurationError, match="one of them"), observed(both, Observer()):
        pass
