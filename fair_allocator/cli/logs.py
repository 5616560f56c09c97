"""The service's own words: one line per event of interest, to standard error.

Text on a terminal, JSON otherwise; never one per record.
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
    """Leave out what clients mention and get over; what they do not comes to us as an error."""
    package = record.name.partition(".")[0]
    return package not in ("kafka", "confluent_kafka") or record.levelno >= logging.CRITICAL


class _Handler(logging.StreamHandler[TextIO]):
    """The one of this module."""


class _Text(logging.Formatter):
    """For a person at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(message)s", "%H:%M:%S")


class _Json(logging.Formatter):
    """For whatever collects log lines."""

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
