"""The section ``kafka`` of the configuration."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from fair_allocator.config.addresses import brokers, endpoint, function
from fair_allocator.config.section import Section, none
from fair_allocator.log.kafka.settings import OAUTHBEARER, KafkaSettings

_BROKERS: Final = "127.0.0.1:9092"
_KAFKA: Final = KafkaSettings(_BROKERS)
"""The settings of the log, which define the defaults."""


class KafkaSection(Section):
    """Section ``kafka``, for `log.kind` "kafka" and "confluent"."""

    bootstrap_servers: Annotated[str, Field(min_length=1), AfterValidator(brokers)] = _BROKERS
    """The brokers to connect to first: host:port, with commas between them."""
    topic_prefix: str = _KAFKA.topic_prefix
    """The prefix of the names of the six topics."""
    group: Annotated[str, Field(min_length=1)] = _KAFKA.group
    """The consumer group of the instances that share the work."""
    instance: str = ""
    """The name of this instance, which a restart must keep; by default the name of the host."""
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """Whether an answer may be published twice; "at_least_once" is faster, see docs/kafka.md."""
    transactional_id: str = ""
    """The id of this instance's transactions at the broker; by default "GROUP/INSTANCE"."""
    session_seconds: Annotated[float, Field(ge=1)] = _KAFKA.session_seconds
    """After this many seconds, the partitions of a silent instance go to other instances."""
    transaction_seconds: Annotated[float, Field(ge=1)] = _KAFKA.transaction_seconds
    """After this many seconds, the broker aborts a transaction that was left open."""
    request_seconds: Annotated[float, Field(ge=1)] = _KAFKA.request_seconds
    """How many seconds the service waits for an answer of a broker."""
    rebalance_seconds: Annotated[float, Field(ge=1)] = _KAFKA.rebalance_seconds
    """How many seconds the group waits while an instance restores; more than `session_seconds`."""
    replication: Annotated[int, Field(ge=-1)] = -1
    """How many copies of every topic `topics --create` makes; -1: the cluster's default."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to connect to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = (
        "SCRAM-SHA-512"
    )
    """How the service proves its identity to the brokers."""
    sasl_username: str = ""
    """The user name for SASL."""
    sasl_password: SecretStr = SecretStr("")
    """The password for SASL; safer in a variable or in a file."""
    sasl_password_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file with this password; set it instead of `sasl_password`."""
    oauth_token_url: Annotated[str, AfterValidator(endpoint)] = ""
    """The endpoint that gives tokens for OAUTHBEARER (OIDC, client credentials)."""
    oauth_client_id: str = ""
    """The client id of the service at the token endpoint."""
    oauth_client_secret: SecretStr = SecretStr("")
    """The client secret for the token endpoint; safer in a variable or in a file."""
    oauth_client_secret_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = (
        None
    )
    """A file with this secret; set it instead of `oauth_client_secret`."""
    oauth_scope: str = ""
    """The scope to ask for, if the token endpoint wants one."""
    oauth_ca_file: str = ""
    """A PEM file of authorities to trust for the token endpoint; by default those of the system."""
    oauth_token_source: Annotated[str, AfterValidator(function)] = ""
    """A "module:function" that returns tokens, used instead of the endpoint, see docs/kafka.md."""
    oauth_extensions: dict[str, str] = Field(default={})
    """Names and values to send with the token, such as Confluent Cloud's logicalCluster."""
    tls_ca_file: str = ""
    """A PEM file of authorities to trust for the brokers; by default those of the system."""
    tls_certificate_file: str = ""
    """A PEM file with the certificate of the service, if the brokers ask for one."""
    tls_key_file: str = ""
    """A PEM file with the private key for `tls_certificate_file`."""

    @model_validator(mode="after")
    def _fits_together(self) -> "KafkaSection":
        if self.rebalance_seconds <= self.session_seconds:
            raise ValueError(
                f"rebalance_seconds ({self.rebalance_seconds:g}) must be above session_seconds "
                f"({self.session_seconds:g})"
            )
        if not self.security_protocol.startswith("SASL"):
            return self
        if self.sasl_mechanism != OAUTHBEARER:
            if not self.sasl_username:
                raise ValueError(f"{self.security_protocol} needs sasl_username")
        elif bool(self.oauth_token_source) == bool(self.oauth_token_url):
            raise ValueError(f"{OAUTHBEARER} needs oauth_token_url or oauth_token_source, not both")
        elif self.oauth_token_url and not self.oauth_client_id:
            raise ValueError("oauth_token_url needs oauth_client_id")
        return self
