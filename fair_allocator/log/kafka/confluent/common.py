"""Translate errors of the client into errors of the driver."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from fair_allocator.log.kafka.driver import (
    TIME_REFUSED,
    DriverError,
    InstanceFenced,
    NotPermitted,
    PositionGone,
    Unreachable,
    WriterFenced,
)

T = TypeVar("T")

_WRITER_FENCED: Final = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
_GONE: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,
)
_NOT_PERMITTED: Final = (
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_UNREACHABLE: Final = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,  # no leader is known
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.REQUEST_TIMED_OUT,
)

COORDINATOR_MOVES: Final = (
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""Temporary errors of a cluster that has just started, or in which a broker failed."""


def as_error(error: KafkaError, topic: str = "") -> DriverError:
    """Return the driver's error for an error of the client. The message names `topic` if given."""
    code, text = error.code(), f"{error.name()}: {error.str()}"
    if topic:
        text = f"{topic}: {text}"
    # All fatal errors of a consumer have the same code. Only the message tells them apart.
    if code == KafkaError.FENCED_INSTANCE_ID or (
        code == KafkaError._FATAL and "group.instance.id" in text
    ):
        return InstanceFenced(text)
    if code in _WRITER_FENCED:
        return WriterFenced(text)
    if code in _NOT_PERMITTED:
        return NotPermitted(text)
    if code == KafkaError.INVALID_TIMESTAMP:
        return DriverError(f"{TIME_REFUSED} ({text})")
    if code in _GONE:
        return PositionGone(text)
    return Unreachable(text) if code in _UNREACHABLE else DriverError(text)


@contextmanager
def translated() -> Iterator[None]:
    """Raise the client's errors as the driver's errors."""
    try:
        yield
    except KafkaException as error:
        raise as_error(error.args[0]) from error
    except SystemError as error:
        # The client failed for good. It raises this error in its next callback of any kind.
        cause = error.__cause__
        if isinstance(cause, KafkaException):
            raise as_error(cause.args[0]) from error
        raise DriverError(str(error)) from error
    except RuntimeError as error:  # the client is closed, or a call came in the wrong order
        raise DriverError(str(error)) from error


def insist(ask: Callable[[], T], while_: Sequence[int], patience: float) -> T:
    """Call `ask` until it succeeds, for at most `patience` seconds.

    Try again only after the errors in `while_`, which are temporary.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in while_ or time.monotonic() > deadline:
                raise
        time.sleep(0.002)
