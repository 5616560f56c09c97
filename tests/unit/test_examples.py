"""The examples of the documentation run, and do what they say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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


def test_the_task_queue_is_short() -> None:
    lines = (EXAMPLES / "task_queue.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
