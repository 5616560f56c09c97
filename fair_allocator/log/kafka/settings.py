"""What it takes to find the topics of a cluster and to be one of those who serve them."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.base import TOPICS

CLIENTS: Final = ("kafka", "confluent")
"""The client libraries: kafka-python, and confluent-kafka."""

DELIVERIES: Final = ("exactly_once", "at_least_once")
"""How often an answer may be seen; see `exactly_once` and `at_least_once`."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Security:
    """How to prove who one is and to see who the broker is.

    Attributes
    ----------
    protocol
        PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    mechanism
        PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, where the protocol is one of SASL.
    password
        Never shown.
    ca_file, certificate_file, key_file
        In PEM; without a `ca_file` the system's authorities are trusted.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    @property
    def uses_sasl(self) -> bool:
        """Whether there is a user who has to give a password."""
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """One log on a cluster, and one instance among those that serve it.

    Attributes
    ----------
    bootstrap_servers
        ``host:port``, several with commas between them.
    topic_prefix
        What the names of all six topics begin with.
    group
        The consumer group of all instances that share the work.
    instance
        Tells this instance from the others of the group, and is the same after a restart: so
        it gets its partitions back at once.
    delivery
        How commits are made: "exactly_once", or "at_least_once".
    transactional_id
        By which the broker knows this instance's transactions; by default of group and instance.
    session_seconds
        After which a silent instance is taken for dead and its partitions go to others.
    transaction_seconds
        After which the broker aborts a transaction that its writer left open.
    request_seconds
        How long to wait for an answer of the broker.
    rebalance_seconds
        How long the group waits for an instance that restores and does not poll.
    """

    bootstrap_servers: str
    topic_prefix: str = "fair-allocator."
    group: str = "fair-allocator"
    instance: str = "0"
    delivery: str = DELIVERIES[0]
    transactional_id: str = ""
    session_seconds: float = 10.0
    transaction_seconds: float = 15.0
    request_seconds: float = 20.0
    rebalance_seconds: float = 120.0
    security: Security = Security()

    def __post_init__(self) -> None:
        for name in (self.group, self.instance, f"{self.topic_prefix}requests"):
            if not _NAME.fullmatch(name):
                raise ConfigurationError(
                    f"kafka: {name!r}: only letters, digits, '.', '_' and '-', at most 200"
                )

    @property
    def writer(self) -> str:
        """The transactional id in force; neither name has a slash, so no two share one."""
        return self.transactional_id or f"{self.group}/{self.instance}"

    @property
    def topics(self) -> dict[str, str]:
        """The cluster's name of each topic."""
        return {topic: self.topic_prefix + topic for topic in TOPICS}


def default_instance(environ: Mapping[str, str] = os.environ) -> str:
    """Return what a pod of a StatefulSet, or a machine, keeps over a restart.

    >>> default_instance({"HOSTNAME": "fair-allocator-3"})
    'fair-allocator-3'
    """
    name = environ.get("HOSTNAME") or socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:200] or "0"


def longest_wait(transaction_seconds: float) -> float:
    """Return how long a transaction that a dead writer left open may hold up a reader.

    It ends by its timeout, which brokers look for every ten seconds.
    """
    return transaction_seconds + 15.0
