"""Errors, there and here."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from fair_allocator.log.kafka.driver import (
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
"""What is answered by a cluster that was just started, or where a broker failed."""


def as_error(error: KafkaError, topic: str = "") -> DriverError:
    """Return what the log is told of an error, about a topic perhaps."""
    code, text = error.code(), f"{error.name()}: {error.str()}"
    if topic:
        text = f"{topic}: {text}"
    # A consumer says it in words only: its code is that of any end of it.
    if code == KafkaError.FENCED_INSTANCE_ID or (
        code == KafkaError._FATAL and "group.instance.id" in text
    ):
        return InstanceFenced(text)
    if code in _WRITER_FENCED:
        return WriterFenced(text)
    if code in _NOT_PERMITTED:
        return NotPermitted(text)
    if code in _GONE:
        return PositionGone(text)
    return Unreachable(text) if code in _UNREACHABLE else DriverError(text)


@contextmanager
def translated() -> Iterator[None]:
    """Let what the client raises come out as an error of ours."""
    try:
        yield
    except KafkaException as error:
        raise as_error(error.args[0]) from error
    except SystemError as error:
        # It failed for good, which it raises into whatever callback comes next.
        cause = error.__cause__
        if isinstance(cause, KafkaException):
            raise as_error(cause.args[0]) from error
        raise DriverError(str(error)) from error
    except RuntimeError as error:  # closed, or out of its order
        raise DriverError(str(error)) from error


def insist(ask: Callable[[], T], while_: Sequence[int], patience: float) -> T:
    """Ask again while the answer is an error that passes."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in while_ or time.monotonic() > deadline:
                raise
        time.sleep(0.002)
