"""The log lines of the service on standard error: one line for each event that operators need.

On a terminal the lines are text, otherwise JSON. The service never writes a log line for each
record.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO


def set_up(stream: TextIO | None = None) -> None:
    """Write the log lines of this process to a stream, standard error by default."""
    stream = sys.stderr if stream is None else stream
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(old)
    handler = _Handler(stream)
    handler.addFilter(_is_no_clients)
    handler.setFormatter(_Text() if stream.isatty() else _Json())
    root.addHandler(handler)
    set_level("info")


def set_level(level: str) -> None:
    """Leave out lines that are less severe than a level, such as "warning"."""
    logging.getLogger("fair_allocator").setLevel(level.upper())


def _is_no_clients(record: logging.LogRecord) -> bool:
    """Tell whether to keep a log line. Of the lines of a Kafka client, keep only critical ones.

    The clients log problems that they recover from. Other problems reach us as exceptions.
    """
    package = record.name.partition(".")[0]
    return package not in ("kafka", "confluent_kafka") or record.levelno >= logging.CRITICAL


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of this module, so that `set_up` can find and replace it."""


class _Text(logging.Formatter):
    """Lines for a person at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(message)s", "%H:%M:%S")


class _Json(logging.Formatter):
    """Lines for a log collector."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
