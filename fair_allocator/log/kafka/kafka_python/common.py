"""Translate names and errors between the client and the driver."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from fair_allocator.log.kafka.driver import (
    TIME_REFUSED,
    DriverError,
    InstanceFenced,
    NotPermitted,
    Place,
    PositionGone,
    Stored,
    Unreachable,
    WriterFenced,
)

_UNREACHABLE: Final = (
    kafka_errors.KafkaConnectionError,
    kafka_errors.KafkaTimeoutError,
    kafka_errors.NodeNotReadyError,
)
_FENCED: Final = (kafka_errors.InvalidProducerEpochError, kafka_errors.ProducerFencedError)
_GONE: Final = (
    kafka_errors.OffsetOutOfRangeError,
    kafka_errors.NoOffsetForPartitionError,
    kafka_errors.LogTruncationError,
)


@contextmanager
def translated(failures: Collection[str] = ()) -> Iterator[None]:
    """Raise the client's errors as the driver's errors.

    If there is no connection, the message has the reasons in `failures`.
    """
    try:
        yield
    except kafka_errors.FencedInstanceIdError as error:
        raise InstanceFenced(str(error)) from error
    except _GONE as error:
        raise PositionGone(str(error)) from error
    except _UNREACHABLE as error:
        raise Unreachable("; ".join((str(error), *failures))) from error
    except kafka_errors.KafkaError as error:
        # If a producer failed for good, the reason is in the arguments of its error.
        causes = (error, *error.args)
        if any(isinstance(cause, kafka_errors.AuthorizationError) for cause in causes):
            raise NotPermitted(str(error)) from error
        # If a producer failed before, its error has only the text of the reason.
        if kafka_errors.InvalidTimestampError.__name__ in str(error):
            raise DriverError(f"{TIME_REFUSED} ({error})") from error
        fenced = any(isinstance(cause, _FENCED) for cause in causes)
        raise (WriterFenced if fenced else DriverError)(str(error)) from error


class Names:
    """Translates between our names of topics and places and the names in the cluster."""

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.theirs = dict(topics)
        self.ours = {name: topic for topic, name in topics.items()}

    def place(self, place: Place) -> TopicPartition:
        topic, partition = place
        return TopicPartition(self.theirs[topic], partition)

    def positions(self, stored: Mapping[Place, Stored]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            self.place(place): OffsetAndMetadata(offset, metadata, -1)
            for place, (offset, metadata) in stored.items()
        }

    def ours_of(self, place: TopicPartition) -> Place:
        return self.ours[place.topic], place.partition
