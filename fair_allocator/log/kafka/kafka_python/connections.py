"""The connections of a kafka-python client, with three fixes, and the reasons of failures.

The fixes are in two subclasses of the client's own classes. They depend on the behaviour of one
version of the client. So the package requires that version, and with another version a warning is
given.

- *A dead coordinator.* A transactional producer asks `await_ready` whether it can talk to its
  coordinator. If the answer is False, the producer looks for the new coordinator and queues its
  request again. But the client's `await_ready` raises an error instead. Then the producer forgets
  the request, and `commit_transaction` waits for ever. Our `await_ready` returns False.
- *An unknown broker.* A client asks for the brokers of the cluster every five minutes. If it learns
  of another broker in between, for example as the leader of a partition, it raises an error, and
  does not try again. Our class asks for the brokers of the cluster, and says that this broker is
  not ready yet. Then the client tries again.
- *A pause.* A client pauses for 100 ms before it asks again where topics are. No setting changes
  this. With our class the pause is shorter.
"""

import logging
import warnings
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import kafka
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

KNOWN_VERSION: Final = "3.0.12"
"""The version of kafka-python that these classes fix."""

METADATA_PAUSE_MS: Final = 10
"""Milliseconds before a client asks again where topics are.

It asks two or three times when it starts.
"""

NOT_READY_PAUSE_MS: Final = 20
"""Milliseconds of pause after a coordinator was not ready. The client itself would not pause."""

_TIME_IS_UP: Final = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
"""Errors of an attempt that began too late.

We leave them out, because earlier errors say why it failed.
"""


def warn_of_version(version: str) -> None:
    """Warn if another version of kafka-python is installed than the one these fixes are for."""
    if version != KNOWN_VERSION:
        warnings.warn(
            f"kafka-python {version} was never tested: the adapter fixes faults of {KNOWN_VERSION}",
            RuntimeWarning,
            stacklevel=2,
        )


warn_of_version(kafka.__version__)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Knows brokers by number, and connects to them."""

    def get_connection(self, node_id: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return super().get_connection(node_id, *arguments, **more)
        except kafka_errors.UnknownBrokerIdError:
            self.cluster.request_update()
            raise kafka_errors.NodeNotReadyError(node_id) from None


class _Connections(KafkaNetClient):  # type: ignore[misc]
    """Talks to the cluster on behalf of a consumer, a producer or an admin client."""

    def __init__(self, **configs: Any) -> None:
        net = NetworkSelector(**configs)
        super().__init__(net=net, manager=_Manager(net, **configs))
        self.cluster.config["retry_backoff_ms"] = METADATA_PAUSE_MS

    def await_ready(self, node_id: Any, timeout_ms: float = 30_000) -> bool:
        try:
            return bool(super().await_ready(node_id, timeout_ms))
        except kafka_errors.KafkaConnectionError:
            self.poll(timeout_ms=NOT_READY_PAUSE_MS)
            return False


def connections(**configs: Any) -> KafkaNetClient:
    """Make the connections of a client."""
    return _Connections(**configs)


@contextmanager
def failures() -> Iterator[Collection[str]]:
    """Yield the reasons why connections fail in this block. The client only logs these reasons."""
    heard = _Failures()
    log = logging.getLogger("kafka.net")
    log.addHandler(heard)
    try:
        yield heard.causes
    finally:
        log.removeHandler(heard)


class _Failures(logging.Handler):
    """Collects the latest errors that are logged, without repeats."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.causes: deque[str] = deque(maxlen=5)

    def emit(self, record: logging.LogRecord) -> None:
        for cause in record.args or ():
            if isinstance(cause, Exception) and not isinstance(cause, _TIME_IS_UP):
                text = str(cause)
                if text not in self.causes:
                    self.causes.append(text)
