"""The examples of the documentation run, and do what they say."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from fair_allocator.client import FakeAllocator, FakeServer

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_task_queue_gets_three_answers_to_every_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue, report = loaded("task_queue").main(tasks=40)
    printed = capsys.readouterr().out.splitlines()
    assert report.ok
    (pool,) = report.pools
    assert (pool.worst, pool.tolerated) == (0, 0)
    assert pool.waited > 0, "the shifts were so long that nobody had to wait"
    assert queue.declined.total() > 0
    # Every pick was answered or declined; only what everybody declined is left without an answer.
    assert queue.did.total() + queue.declined.total() == pool.forced + pool.learned
    assert queue.did.total() <= 3 * 40
    assert len(queue.did) == 12, "somebody got nothing"
    assert printed[-1] == "every guarantee was kept at every round"


@pytest.mark.parametrize(("name", "most"), [("task_queue", 100), ("crowd", 60)])
def test_an_example_is_short(name: str, most: int) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= most


def test_the_crowd_gives_three_answers_to_every_task() -> None:
    pool = tomllib.loads((EXAMPLES / "crowd.toml").read_text("utf-8"))["pools"]["crowd"]
    with FakeAllocator(FakeServer({"crowd": pool["tags"]}, reassign=True)) as allocator:
        crowd = loaded("crowd").main(allocator, tasks=40)
    assert crowd.did.total() == 3 * 40
    assert crowd.declined.total() > 0
    assert crowd.did.keys() == pool["arms"].keys(), "somebody got nothing"
