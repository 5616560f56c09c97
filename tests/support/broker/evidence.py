"""What it takes to understand a failure on Kafka, added to the report of a test that fails.

A plugin of pytest: it keeps what was last asked of a broker, how that ended and how long it took,
what the clients said, and where the brokers of this process write their logs.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

from fair_allocator.log.kafka import confluent, kafka_python
from tests.support.pace import slowness

KEPT: Final = 40
"""Questions and lines of each kind that are shown."""

LONG_SECONDS: Final = 1.0
"""What is asked all the time is noted only if it takes as long, or fails."""

QUESTIONS: Final = {
    "Admin": ("partition_counts", "settings", "create", "offsets", "delete_before", "stored"),
    "GroupReader": ("stored", "store", "seek", "close"),
    "Transactions": ("begin", "write", "store", "end"),
    "Writer": ("append",),
}
FREQUENT: Final = {"GroupReader": ("poll",), "Reader": ("read",)}
LOGGERS: Final = ("confluent_kafka", "kafka", "fair_allocator.log")

questions: deque[str] = deque(maxlen=KEPT)
outputs: dict[Path, None] = {}
"""Where the brokers that this process uses write to, in the order of their start."""


class _Words(logging.Handler):
    """Keeps what the clients said last; what they repeat, once with how often."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[tuple[str, str, int]] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        text, times = f"{record.levelname} {record.name} {record.getMessage()}", 1
        if self._lines and self._lines[-1][1] == text:
            at, _, before = self._lines.pop()
            times += before
        self._lines.append((at, text, times))

    def forget(self) -> None:
        self._lines.clear()

    def lines(self) -> list[str]:
        return [f"{at} {text}" + f" ({n} times)" * (n > 1) for at, text, n in self._lines]


words: Final = _Words()


def watch() -> None:
    """Note from now on what is asked and said."""
    for name in LOGGERS:
        logging.getLogger(name).addHandler(words)
    for adapter in (kafka_python, confluent):
        for kind, least in ((QUESTIONS, 0.0), (FREQUENT, LONG_SECONDS)):
            for name, methods in kind.items():
                asked = getattr(adapter, name)
                for method in methods:
                    setattr(asked, method, _noted(getattr(asked, method), name, least))


def _noted(ask: Callable[..., Any], asker: str, least: float) -> Callable[..., Any]:
    @wraps(ask)
    def asking(self: Any, *arguments: Any, **more: Any) -> Any:
        began, failed = time.monotonic(), ""
        try:
            return ask(self, *arguments, **more)
        except BaseException as error:
            failed = f": {type(error).__name__}: {error}"
            raise
        finally:
            took = time.monotonic() - began
            if failed or took >= least:
                given = ", ".join([str(each)[:200] for each in arguments])
                client = type(self).__module__.split(".")[-2]
                asked = f"{client} {asker}.{ask.__name__}({given})"
                questions.append(f"{time.strftime('%H:%M:%S')} {asked} took {took:.3f} s{failed}")

    return asking


def sections() -> Iterator[tuple[str, str]]:
    """Yield titles and texts for a report."""
    yield "the machine", f"{slowness():.1f} times as slow as usual"
    yield "asked of Kafka, the last last", "\n".join(questions) or "nothing"
    yield "said by the clients", "\n".join(words.lines()) or "nothing"
    for output in outputs:
        if output.exists():
            lines = output.read_text(errors="replace").splitlines()
            yield f"the last lines of {output}", "\n".join(lines[-KEPT:]) or "none"


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    watch()


def pytest_runtest_setup() -> None:
    questions.clear()
    words.forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and (questions or "broker" in getattr(item, "fixturenames", ())):
        report.sections.extend(sections())
    return report
