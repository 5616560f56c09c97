"""The commands that ask a running service: what they print, and how they end."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.client import FakeAllocator, FakeServer
from tests.client.over_http import OverHttp, serving
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
Command = Callable[..., int]


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer({"tasks": {"ann": ["french"], "bob": [], "cyd": []}})


@pytest.fixture
def app(fake: FakeServer) -> OverHttp:
    return OverHttp(fake)


@pytest.fixture
def command(app: OverHttp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    with serving(app) as url:
        monkeypatch.setenv("FAIR_ALLOCATOR_URL", url)
        yield lambda *words: main(list(words))


def test_ask_prints_the_arm(command: Command, capsys: Capture) -> None:
    assert command("ask", "--pool", "tasks", "--id", "r1") == 0
    assert capsys.readouterr().out == "ann\n"
    assert command("ask", "--pool", "tasks", "--id", "r1") == 0
    assert capsys.readouterr().out == "ann\n"


def test_ask_passes_on_what_is_wanted(command: Command, fake: FakeServer, capsys: Capture) -> None:
    assert command("ask", "--pool", "tasks", "--eligible", "bob,cyd", "--slots", "2") == 0
    assert capsys.readouterr().out == "bob\ncyd\n"
    assert command("ask", "--pool", "tasks", "--needs", "french") == 0
    assert capsys.readouterr().out == "ann\n"
    assert fake.requests[0]["eligible"] == ["bob", "cyd"]


def test_ask_prints_json(command: Command, capsys: Capture) -> None:
    assert command("ask", "--pool", "tasks", "--id", "r1", "--slots", "2", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["request_id"], said["arm"], said["round"]) == ("r1", "ann", 1)
    assert [pick["arm"] for pick in said["arms"]] == ["ann", "bob"]


def test_rewards_and_declines_are_sent(command: Command, fake: FakeServer, capsys: Capture) -> None:
    assert command("reward", "--pool", "tasks", "--id", "r1", "--value", "0.8") == 0
    assert capsys.readouterr().out == "rewards 0 @ 0: pool tasks, request r1\n"
    assert command("decline", "--pool", "tasks", "--id", "r1", "--arm", "ann", "--json") == 0
    assert json.loads(capsys.readouterr().out)["request_id"] == "r1"
    assert fake.rewards == [{"pool": "tasks", "request_id": "r1", "value": 0.8}]
    assert fake.declines == [{"pool": "tasks", "request_id": "r1", "arm": "ann"}]


def test_tail_prints_assignments_as_they_come(
    command: Command, fake: FakeServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = FakeAllocator(fake)
    real = fake.handle

    def also_assign(request: object) -> object:
        """Let two requests be answered as soon as somebody watches."""
        answer = real(request)  # type: ignore[arg-type]
        monkeypatch.setattr(fake, "handle", real)
        local.assign("tasks", request_id="r1", slots=2)
        local.assign("tasks", request_id="\x1b[2J")
        return answer

    monkeypatch.setattr(fake, "handle", also_assign)
    assert command("tail", "--pool", "tasks", "--count", "2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "tasks  r1  ann (learner), bob (learner)  round 1",
        "tasks  '\\x1b[2J'  cyd (learner)  round 2",
    ]


def test_tail_prints_json_on_lines(
    command: Command, fake: FakeServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake.handle

    def also_assign(request: object) -> object:
        answer = real(request)  # type: ignore[arg-type]
        monkeypatch.setattr(fake, "handle", real)
        FakeAllocator(fake).assign("tasks", request_id="r1")
        return answer

    monkeypatch.setattr(fake, "handle", also_assign)
    assert command("tail", "--json", "--count", "1") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["request_id"] == "r1"


def test_watch_shows_the_shares_of_a_pool(
    command: Command, fake: FakeServer, capsys: Capture
) -> None:
    local = FakeAllocator(fake)
    for _ in range(3):
        local.assign("tasks")
    local.control("tasks", "sleep", arms=["bob"])
    assert command("watch", "--once") == 0
    shown = capsys.readouterr().out
    assert "tasks: 3 rounds" in shown
    assert "1 asleep" in shown
    assert "33.3%" in shown
    assert command("watch", "--pool", "tasks") == 0, "without a terminal it looks once"
    assert "33.3%" in capsys.readouterr().out


def test_watch_lists_pools(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeServer({"tasks": ["ann"], "[bold]more": ["ann", "bob"]})
    FakeAllocator(fake).control("tasks", "pause")
    with serving(OverHttp(fake)) as url:
        assert main(["watch", "--url", url]) == 0
    shown = capsys.readouterr().out
    assert "2 pools" in shown
    assert "tasks (paused)" in shown
    assert "[bold]more" in shown, "a name is no markup"


# -- how they end -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "--pool", "tasks"],
        ["reward", "--pool", "tasks", "--id", "r1", "--value", "1"],
        ["decline", "--pool", "tasks", "--id", "r1"],
        ["tail"],
        ["watch"],
    ],
    ids=lambda words: words[0],
)
def test_where_nobody_listens_it_is_said_what_to_do(words: list[str], capsys: Capture) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main([*words, "--url", url]) == 69
    said = capsys.readouterr().err
    assert url in said
    assert "is `fair-allocator run` running there?" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "reason", "code", "words"),
    [
        (401, None, 78, "--token-file"),
        (403, None, 78, "FAIR_ALLOCATOR_TOKEN"),
        (409, "nobody-free", 1, "nobody-free"),
        (500, None, 70, "answered 500"),
    ],
)
def test_the_exit_code_says_what_kind_of_trouble_it_is(
    command: Command,
    fake: FakeServer,
    capsys: Capture,
    status: int,
    reason: str | None,
    code: int,
    words: str,
) -> None:
    fake.fail_next(status, reason=reason)
    assert command("ask", "--pool", "tasks") == code
    assert words in capsys.readouterr().err


def test_a_request_without_an_answer_exits_69_with_its_id(
    command: Command, fake: FakeServer, capsys: Capture
) -> None:
    FakeAllocator(fake).control("tasks", "pause")
    assert command("ask", "--pool", "tasks", "--id", "r1", "--wait", "0") == 69
    said = capsys.readouterr().err
    assert "'r1'" in said
    assert "paused" in said


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "--pool", "tasks", "--url", "localhost:9464"],
        ["ask", "--pool", "tasks", "--wait", "-1"],
        ["ask", "--pool", "tasks", "--token-file", "/nowhere"],
        ["reward", "--pool", "tasks", "--id", "r1", "--value", "nan"],
        ["watch", "--every", "0"],
    ],
)
def test_what_makes_no_sense_exits_2(words: list[str], capsys: Capture) -> None:
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_token_comes_from_a_file_or_a_variable(
    command: Command, app: OverHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from a file\n", encoding="utf-8")
    monkeypatch.setenv("FAIR_ALLOCATOR_TOKEN", "from a variable")
    assert command("ask", "--pool", "tasks") == 0
    assert command("ask", "--pool", "tasks", "--token-file", str(file)) == 0
    sent = [head["authorization"] for head in app.heads]
    assert sent == ["Bearer from a variable", "Bearer from a file"]


def test_the_variables_of_the_commands_are_no_settings(
    command: Command, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIR_ALLOCATOR_TOKEN", "any")
    assert command("check-config") == 0, capsys.readouterr().err
