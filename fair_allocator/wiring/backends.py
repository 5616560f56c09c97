"""The table of logs: from `log.kind` to the class that opens such a log."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from fair_allocator.config import Configuration
from fair_allocator.log import Log, LogClient
from fair_allocator.wiring.backend import Backend


def _embedded() -> Backend:
    from fair_allocator.wiring.sqlite import Embedded

    return Embedded()


def _kafka(client: str) -> Callable[[], Backend]:
    def make() -> Backend:
        from fair_allocator.wiring.kafka import Kafka

        return Kafka(client)

    return make


BACKENDS: Final[Mapping[str, Callable[[], Backend]]] = {
    "sqlite": _embedded,
    "kafka": _kafka("kafka"),
    "confluent": _kafka("confluent"),
}
"""The backends by kind. A backend is made when it is used, and loads only its own library."""


@cache
def _backend(kind: str) -> Backend:
    return BACKENDS[kind]()


def backend_of(configuration: Configuration) -> Backend:
    """Return the configured kind of log."""
    return _backend(configuration.log.kind)


def log_name(configuration: Configuration) -> str:
    """Return the name of the configured log for messages."""
    return backend_of(configuration).name(configuration)


def open_log(configuration: Configuration, *, exactly_once: bool = False) -> Log:
    """Return the configured log for a service. It is not opened yet.

    With `exactly_once`, its commits are transactions over all partitions, even if another mode is
    configured.
    """
    return backend_of(configuration).open_log(configuration, exactly_once=exactly_once)


def open_client(configuration: Configuration, *, create: bool = False) -> LogClient:
    """Return a client of the configured log.

    Without `create`, the log must exist, and any number of partitions is accepted. Only the command
    `topics` makes topics on Kafka.
    """
    return backend_of(configuration).open_client(configuration, create=create)
