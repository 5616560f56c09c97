"""What a client of kafka-python talks through, made quicker, and why it could not."""

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

METADATA_PAUSE_MS: Final = 10
"""Between two looks at where topics are: at a start every client has two or three of them."""

_TIME_IS_UP: Final = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
"""What an attempt ends with that was begun late, whatever the ones before it failed of."""


def connections(**configs: Any) -> KafkaNetClient:
    """Make what a client talks through, whose pause of 100 ms no setting of a client reaches.

    All of these names are public, though none is documented. It is worth half a second of every
    start; the version is pinned, and a release without this place would say so at once.
    """
    net = KafkaNetClient(**configs)
    net.cluster.config["retry_backoff_ms"] = METADATA_PAUSE_MS
    return net


@contextmanager
def failures() -> Iterator[Collection[str]]:
    """Yield why connections fail meanwhile, which a client tells its log and nobody else."""
    heard = _Failures()
    log = logging.getLogger("kafka.net")
    log.addHandler(heard)
    try:
        yield heard.causes
    finally:
        log.removeHandler(heard)


class _Failures(logging.Handler):
    """Hears of errors; keeps the latest, each once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.causes: deque[str] = deque(maxlen=5)

    def emit(self, record: logging.LogRecord) -> None:
        for cause in record.args or ():
            if isinstance(cause, Exception) and not isinstance(cause, _TIME_IS_UP):
                text = str(cause)
                if text not in self.causes:
                    self.causes.append(text)
