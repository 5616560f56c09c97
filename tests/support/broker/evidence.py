"""Add to the report of a failed test what helps to understand a failure on Kafka.

This is a plugin of pytest. It keeps the last questions that were sent to a broker, with their
outcomes and times. It also keeps the last log lines of the client libraries, and the paths of the
logs of the brokers in this process.
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
"""The most questions, and the most log lines, to show."""

LONG_SECONDS: Final = 1.0
"""A question that is asked all the time is noted only if it takes at least this long, or fails."""

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
"""The log files of the brokers that this process uses, in the order in which they were started."""


class _Words(logging.Handler):
    """Keeps the last log lines of the clients. A repeated line is kept once, with a count."""

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
    """From now on, note the questions to brokers and the log lines of clients."""
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
