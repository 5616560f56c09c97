"""The adapter of confluent-kafka, which uses librdkafka: faster, but not pure Python.

Callbacks run during the calls in this folder, on the calling thread.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fair_allocator.log.kafka.confluent.admin import Admin
from fair_allocator.log.kafka.confluent.bounded import GrowingLimit
from fair_allocator.log.kafka.confluent.common import translated
from fair_allocator.log.kafka.confluent.reading import GroupReader, Reader, Tailer
from fair_allocator.log.kafka.confluent.writing import STORING_SECONDS, Transactions, Writer
from fair_allocator.log.kafka.driver import (
    POLL_BYTES,
    POLL_WAIT_MS,
    READ_BYTES,
    READ_WAIT_MS,
    REQUEST_BYTES,
    GroupListener,
    Place,
    Unreachable,
    milliseconds,
)
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.tokens import Tokens, tokens_of
from fair_allocator.log.records import JOURNAL

logger = logging.getLogger("confluent_kafka")
logger.addHandler(logging.NullHandler())

QUEUED: Final = 40_000
QUEUE_PAUSE_MS: Final = 10
"""How many messages the client fetches ahead over all places, and how long it then pauses.

By default the client pauses for a second in all places. So a backlog in one topic would delay all
other topics, and the service would wait although there are records to read.
"""

REFRESH_SECONDS: Final = 1.0
"""How often a writer of transactions looks where the leaders are.

For an admin client, how long its knowledge of the leaders is valid.

A writer also forgets the group's coordinator if it has not used the coordinator for three times
this long. If the coordinator's broker dies, the cluster takes longer than that to choose another
coordinator. So when there is a new coordinator, the writer has forgotten the dead one, and looks
for the new one. By default a writer forgets only after 15 minutes, so it would ask the dead one.
"""

FIRST_WAIT_SECONDS: Final = 0.05
"""How long the first attempt to make a writer may take.

Each further attempt may take twice as long as the one before it.
"""


def _token(
    tokens: Tokens, extensions: Mapping[str, str], _setting: str
) -> tuple[str, float, str, Mapping[str, str]]:
    """Return the token in the client's form: token, expiry, no principal, and extensions."""
    token = tokens.current()
    return token.text, token.expires_at, "", extensions


class Confluent:
    """Makes connections with confluent-kafka."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._topics = settings.topics
        self._storing = GrowingLimit(STORING_SECONDS, settings.request_seconds)
        security = settings.security
        common: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap_servers,
            "client.id": f"fair-allocator-{settings.instance}",
            "socket.timeout.ms": milliseconds(settings.request_seconds),
            "reconnect.backoff.ms": 20,  # the client reconnects after half of this time
            "reconnect.backoff.max.ms": 500,
            "security.protocol": security.protocol,
            "logger": logger,
        }
        self._tokens: Tokens | None = None
        if security.uses_tokens:
            self._tokens = tokens_of(security.oauth)
            common |= {
                "sasl.mechanism": security.mechanism,
                "oauth_cb": partial(_token, self._tokens, dict(security.oauth.extensions)),
            }
        if security.uses_password:
            common |= {
                "sasl.mechanism": security.mechanism,
                "sasl.username": security.username,
                "sasl.password": security.password,
            }
        if security.uses_tls:
            files = {
                "ssl.ca.location": security.ca_file,
                "ssl.certificate.location": security.certificate_file,
                "ssl.key.location": security.key_file,
            }
            common |= {key: file for key, file in files.items() if file}
        self._common = common

    def admin(self) -> Admin:
        if self._tokens is not None:
            self._tokens.current()  # raises a clear error, where the client would only try again
        told: list[KafkaError] = []
        with translated():
            # Without a maximum age, a client that was idle during a failover asks the dead leader
            # first.
            aged = {"metadata.max.age.ms": milliseconds(REFRESH_SECONDS)}
            client = AdminClient(self._common | aged | {"error_cb": told.append})
        settings = self._settings
        # This consumer does not wait for transactions that may change the group's positions.
        asking = partial(self._consumer, settings.group, isolation_level="read_uncommitted")
        admin = Admin(client, asking, self._topics, settings.request_seconds)
        try:
            admin.partition_counts()  # the client connects when it is first used
        except Unreachable:
            # The client reports a wrong password or certificate, or a closed port, only to the
            # callback, which runs in `poll`.
            client.poll(0)
            for problem in told:
                if problem.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise Unreachable(problem.str()) from None
            raise
        return admin

    def _consumer(self, group: str, **more: object) -> Consumer:
        return Consumer(
            self._common
            | {
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",  # never skip a position that is gone
                "enable.auto.commit": False,
                "enable.partition.eof": True,  # shows the positions after control records
                "queued.min.messages": QUEUED,
                "fetch.queue.backoff.ms": QUEUE_PAUSE_MS,
            }
            | {key.replace("_", "."): value for key, value in more.items()}
        )

    def reader(self) -> Reader:
        with translated():
            consumer = self._consumer(
                self._settings.group,  # the reader does not join it, but asks for its coordinator
                max_partition_fetch_bytes=READ_BYTES,
                fetch_wait_max_ms=READ_WAIT_MS,
            )
            return Reader(consumer, self._topics)

    def tailer(self, positions: Mapping[Place, int]) -> Tailer:
        with translated():
            consumer = self._consumer(
                self._settings.group,  # the tailer does not join it
                max_partition_fetch_bytes=POLL_BYTES,
                fetch_wait_max_ms=POLL_WAIT_MS,
            )
            return Tailer(consumer, self._topics, positions)

    def group_reader(self, listener: GroupListener) -> GroupReader:
        settings = self._settings
        with translated():
            consumer = self._consumer(
                settings.group,
                group_instance_id=settings.instance,
                session_timeout_ms=milliseconds(settings.session_seconds),
                heartbeat_interval_ms=milliseconds(settings.session_seconds / 10),
                max_poll_interval_ms=milliseconds(settings.rebalance_seconds),
                # A member gets the same partitions of all inputs.
                partition_assignment_strategy="range",
                max_partition_fetch_bytes=POLL_BYTES,
                fetch_wait_max_ms=POLL_WAIT_MS,
            )
            asking = self._consumer(settings.group)
            return GroupReader(consumer, asking, self._topics, listener, settings.request_seconds)

    def _producer(self, **more: object) -> Producer:
        return Producer(
            self._common
            | {
                "acks": "all",
                "enable.idempotence": True,
                "message.max.bytes": REQUEST_BYTES,
                "linger.ms": 5,  # so that records are sent in batches; a flush does not wait
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 2,
            }
            | {key.replace("_", "."): value for key, value in more.items()}
        )

    def transactions(self, writer: str) -> Transactions:
        settings = self._settings
        deadline = time.monotonic() + settings.request_seconds
        wait = FIRST_WAIT_SECONDS
        with translated():
            while True:
                producer = self._producer(
                    transactional_id=writer,
                    transaction_timeout_ms=milliseconds(settings.transaction_seconds),
                    topic_metadata_refresh_interval_ms=milliseconds(REFRESH_SECONDS),
                    socket_timeout_ms=milliseconds(
                        min(settings.request_seconds, settings.transaction_seconds)
                    ),
                )
                try:
                    # Connect first: a producer without a connection looks for its coordinator only
                    # after 0.5 s. Ask twice, because the producer drops its first connection as
                    # soon as it knows all brokers.
                    for _ in range(2):
                        producer.list_topics(self._topics[JOURNAL], settings.request_seconds)
                    producer.init_transactions(wait)
                    patience = settings.request_seconds
                    return Transactions(producer, self._topics, patience, self._storing)
                except KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() > deadline:
                        raise
                # While the broker ends the previous writer's open transaction, it refuses the new
                # writer. The client would ask again only after 0.5 s, so we make another writer,
                # which asks at once.
                del producer
                wait = min(2 * wait, max(FIRST_WAIT_SECONDS, deadline - time.monotonic()))

    def writer(self) -> Writer:
        with translated():
            return Writer(self._producer(), self._topics, self._settings.request_seconds)
