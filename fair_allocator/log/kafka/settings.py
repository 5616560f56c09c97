"""The settings with which an instance finds the topics of a cluster and serves them."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.records import TOPICS

CLIENTS: Final = ("kafka", "confluent")
"""The client libraries: kafka-python, and confluent-kafka."""

DELIVERIES: Final = ("exactly_once", "at_least_once")
"""The modes of delivery (see `exactly_once` and `at_least_once`)."""

OAUTHBEARER: Final = "OAUTHBEARER"
"""The mechanism by which a client logs in with a token from a third party."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class OAuth:
    """Where the tokens of the mechanism OAUTHBEARER come from (see `tokens`).

    Attributes
    ----------
    token_url, client_id, client_secret, scope
        The endpoint that gives tokens to this client, and the values that the client sends to it.
    ca_file
        The authorities that may sign the endpoint's certificate; by default those of the system.
    token_source
        A function that returns tokens, as "module:function", in place of the endpoint.
    extensions
        Names and values that the broker gets with the token.
    """

    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca_file: str = ""
    token_source: str = ""
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Security:
    """How the client and the broker prove their identities to each other.

    Attributes
    ----------
    protocol
        PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    mechanism
        PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, if the protocol uses SASL.
    password
        The password. It is left out when the object is printed.
    oauth
        What OAUTHBEARER needs in place of a user name and a password.
    ca_file, certificate_file, key_file
        Files in PEM format. Without a `ca_file`, the authorities of the system are trusted.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    oauth: OAuth = OAuth()

    @property
    def uses_password(self) -> bool:
        """Whether the client logs in with a user name and a password."""
        return self.protocol.startswith("SASL") and self.mechanism != OAUTHBEARER

    @property
    def uses_tokens(self) -> bool:
        """Whether the client logs in with a token."""
        return self.protocol.startswith("SASL") and self.mechanism == OAUTHBEARER

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach a log on a cluster, and how one instance of the service serves it.

    Attributes
    ----------
    bootstrap_servers
        One or more ``host:port``, with commas between them.
    topic_prefix
        The prefix of the names of all six topics.
    group
        The consumer group of all instances that share the work.
    instance
        The name of this instance in the group. It stays the same after a restart, so that the
        instance gets its partitions back at once.
    delivery
        How commits are made: "exactly_once", or "at_least_once".
    transactional_id
        The id of this instance's transactions at the broker. By default it is made of group and
        instance.
    session_seconds
        Time after which a silent instance counts as dead, and its partitions go to other instances.
    transaction_seconds
        Time after which the broker aborts a transaction that its writer left open.
    request_seconds
        How long to wait for an answer of the broker.
    rebalance_seconds
        How long the group waits for an instance that does not poll, because it restores.
    """

    bootstrap_servers: str
    topic_prefix: str = "fair-allocator."
    group: str = "fair-allocator"
    instance: str = "0"
    delivery: str = DELIVERIES[0]
    transactional_id: str = ""
    session_seconds: float = 6.0
    transaction_seconds: float = 15.0
    request_seconds: float = 20.0
    rebalance_seconds: float = 120.0
    security: Security = Security()

    def __post_init__(self) -> None:
        for name in (self.group, self.instance, f"{self.topic_prefix}requests"):
            if not _NAME.fullmatch(name):
                raise ConfigurationError(
                    f"kafka: {name!r}: a name may have only letters, digits, '.', '_' and '-', at "
                    "most 200 of them"
                )

    @property
    def writer(self) -> str:
        """The transactional id in use. The default is unique, because names contain no slash."""
        return self.transactional_id or f"{self.group}/{self.instance}"

    @property
    def topics(self) -> dict[str, str]:
        """The cluster's name of each topic."""
        return {topic: self.topic_prefix + topic for topic in TOPICS}


def default_instance(environ: Mapping[str, str] = os.environ) -> str:
    """Return a name for this instance that stays the same when the pod or machine restarts.

    >>> default_instance({"HOSTNAME": "fair-allocator-3"})
    'fair-allocator-3'
    """
    name = environ.get("HOSTNAME") or socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:200] or "0"


def longest_wait(transaction_seconds: float) -> float:
    """Return how long the open transaction of a dead writer may delay a reader.

    The transaction ends at its timeout, and brokers check for timeouts every ten seconds.
    """
    return transaction_seconds + 15.0
