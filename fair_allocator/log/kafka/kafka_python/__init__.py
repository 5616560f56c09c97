"""The adapter of kafka-python. It uses the public interface of the client, except for fixes.

See `connections` and `lenient` for these fixes.

Listeners run on a thread of the client while the polling thread waits, so this code needs no lock.
Every workaround in this folder was made after a failure in tests. The comments say how the client
behaves when a broker is slow or gone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider

from fair_allocator.log.kafka.driver import (
    POLL_BYTES,
    POLL_WAIT_MS,
    READ_BYTES,
    READ_WAIT_MS,
    REQUEST_BYTES,
    GroupListener,
    Place,
    milliseconds,
)
from fair_allocator.log.kafka.kafka_python.admin import Admin
from fair_allocator.log.kafka.kafka_python.common import Names, translated
from fair_allocator.log.kafka.kafka_python.connections import connections, failures
from fair_allocator.log.kafka.kafka_python.lenient import install
from fair_allocator.log.kafka.kafka_python.reading import GroupReader, Reader, Tailer
from fair_allocator.log.kafka.kafka_python.writing import KeySerializer, Transactions, Writer
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.tokens import Tokens, tokens_of

install()


FIRST_WAIT_SECONDS: Final = 1.0
"""How long the first attempt to make a writer may take. Each later one may take twice as long.

A broker that has just started, and does not know the cluster yet, accepts a question and does not
answer it. The client would wait for it as long as a request may take. A new producer asks again.
"""


def _initialise(producer: KafkaProducer, seconds: float) -> None:
    """Make a producer ready for transactions; raise KafkaTimeoutError if this takes longer."""
    limit = producer.config["max_block_ms"]
    producer.config["max_block_ms"] = milliseconds(seconds)
    producer.init_transactions()
    producer.config["max_block_ms"] = limit


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives the client a token for each connection."""

    def __init__(self, tokens: Tokens, extensions: Sequence[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._extensions = dict(extensions)

    def token(self) -> str:
        return self._tokens.current().text

    def extensions(self) -> dict[str, str]:
        return self._extensions


class KafkaPython:
    """Makes connections with kafka-python."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._names = Names(settings.topics)
        security = settings.security
        common: dict[str, Any] = {
            "bootstrap_servers": [s.strip() for s in settings.bootstrap_servers.split(",")],
            "client_id": f"fair-allocator-{settings.instance}",
            "request_timeout_ms": milliseconds(settings.request_seconds),
            "bootstrap_timeout_ms": milliseconds(settings.request_seconds),
            "reconnect_backoff_max_ms": 500,
            "kafka_client": connections,
            "security_protocol": security.protocol,
        }
        self._tokens: Tokens | None = None
        if security.uses_tokens:
            self._tokens = tokens_of(security.oauth)
            common |= {
                "sasl_mechanism": security.mechanism,
                "sasl_oauth_token_provider": _Provider(self._tokens, security.oauth.extensions),
            }
        if security.uses_password:
            common |= {
                "sasl_mechanism": security.mechanism,
                "sasl_plain_username": security.username,
                "sasl_plain_password": security.password,
            }
        if security.uses_tls:
            common |= {
                "ssl_cafile": security.ca_file or None,
                "ssl_certfile": security.certificate_file or None,
                "ssl_keyfile": security.key_file or None,
            }
        self._common = common

    def admin(self) -> Admin:
        if self._tokens is not None:
            self._tokens.current()  # raises a clear error, where the client would only try again
        with _connecting():
            client = KafkaAdminClient(**self._common)
        return Admin(client, self._names, self._settings.group, self._settings.request_seconds)

    def _consumer(self, **more: Any) -> KafkaConsumer:
        return KafkaConsumer(
            **self._common,
            isolation_level="read_committed",
            auto_offset_reset="none",  # never skip a position that is gone
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            metrics_enabled=False,
            retry_backoff_ms=20,
            **more,
        )

    def reader(self) -> Reader:
        with _connecting():
            consumer = self._consumer(
                max_partition_fetch_bytes=READ_BYTES, fetch_max_wait_ms=READ_WAIT_MS
            )
            return Reader(consumer, self._names)

    def tailer(self, positions: Mapping[Place, int]) -> Tailer:
        with _connecting():
            consumer = self._consumer(
                max_partition_fetch_bytes=POLL_BYTES, fetch_max_wait_ms=POLL_WAIT_MS
            )
            return Tailer(consumer, self._names, positions)

    def group_reader(self, listener: GroupListener) -> GroupReader:
        settings = self._settings
        with _connecting():
            consumer = self._consumer(
                group_id=settings.group,
                group_instance_id=settings.instance,
                session_timeout_ms=milliseconds(settings.session_seconds),
                heartbeat_interval_ms=milliseconds(settings.session_seconds / 10),
                max_poll_interval_ms=milliseconds(settings.rebalance_seconds),
                # A member gets the same partitions of all inputs.
                partition_assignment_strategy=[RangePartitionAssignor],
                max_partition_fetch_bytes=POLL_BYTES,
                fetch_max_wait_ms=POLL_WAIT_MS,
            )
            try:
                return GroupReader(consumer, self._names, listener, settings.request_seconds)
            except BaseException:
                consumer.close(autocommit=False, timeout_ms=1_000)
                raise

    def _producer(self, **more: Any) -> KafkaProducer:
        request = milliseconds(self._settings.request_seconds)
        return KafkaProducer(
            **self._common,
            key_serializer=KeySerializer(),
            allow_auto_create_topics=False,
            metrics_enabled=False,
            acks="all",
            batch_size=262_144,
            linger_ms=0,
            max_request_size=REQUEST_BYTES,
            max_block_ms=request,
            delivery_timeout_ms=request + 5_000,
            retry_backoff_ms=2,  # with the default, even a small transaction takes 0.2 s
            **more,
        )

    def transactions(self, writer: str) -> Transactions:
        settings = self._settings
        deadline = time.monotonic() + settings.request_seconds
        wait = min(FIRST_WAIT_SECONDS, settings.request_seconds)
        with _connecting():
            while True:
                producer = self._producer(
                    transactional_id=writer,
                    transaction_timeout_ms=milliseconds(settings.transaction_seconds),
                )
                transactions = Transactions(producer, self._names, settings.request_seconds)
                try:
                    _initialise(producer, wait)
                    return transactions
                except BaseException as error:
                    transactions.close()
                    late = time.monotonic() > deadline
                    if late or not isinstance(error, kafka_errors.KafkaTimeoutError):
                        raise
                wait = min(2 * wait, max(FIRST_WAIT_SECONDS, deadline - time.monotonic()))

    def writer(self) -> Writer:
        with _connecting():
            return Writer(self._producer(), self._names, self._settings.request_seconds)


@contextmanager
def _connecting() -> Iterator[None]:
    """Raise the client's errors as the driver's errors. Messages say why no broker answers."""
    with failures() as causes, translated(causes):
        yield
