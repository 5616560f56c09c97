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
    """Brokers to ask first, host:port with commas between them."""
    topic_prefix: str = _KAFKA.topic_prefix
    """The prefix of the names of the six topics."""
    group: Annotated[str, Field(min_length=1)] = _KAFKA.group
    """The consumer group of the instances that share the work."""
    instance: str = ""
    """This instance's own name, the same after a restart; by default the host's name."""
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """How often consumers may see an answer; "at_least_once" is faster, see docs/kafka.md."""
    transactional_id: str = ""
    """The id of this instance's transactions at the broker; by default group and instance."""
    session_seconds: Annotated[float, Field(ge=1)] = _KAFKA.session_seconds
    """Seconds after which a silent instance's partitions go to the others."""
    transaction_seconds: Annotated[float, Field(ge=1)] = _KAFKA.transaction_seconds
    """Seconds after which the broker aborts a transaction that was left open."""
    request_seconds: Annotated[float, Field(ge=1)] = _KAFKA.request_seconds
    """Seconds to wait for an answer from the broker."""
    rebalance_seconds: Annotated[float, Field(ge=1)] = _KAFKA.rebalance_seconds
    """Seconds the group waits for an instance that is busy restoring; above `session_seconds`."""
    replication: Annotated[int, Field(ge=-1)] = -1
    """Copies of every topic that `topics --create` makes; -1 is the cluster's default."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to connect to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = (
        "SCRAM-SHA-512"
    )
    """How the client proves its identity."""
    sasl_username: str = ""
    """The user's name for SASL."""
    sasl_password: SecretStr = SecretStr("")
    """The user's password; better in a variable or in a file."""
    sasl_password_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file that holds the password, in place of `sasl_password`."""
    oauth_token_url: Annotated[str, AfterValidator(endpoint)] = ""
    """The endpoint that gives tokens for OAUTHBEARER (OIDC, client credentials)."""
    oauth_client_id: str = ""
    """The name of this client at the token endpoint."""
    oauth_client_secret: SecretStr = SecretStr("")
    """The client's secret at the token endpoint; better in a variable or in a file."""
    oauth_client_secret_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = (
        None
    )
    """A file that holds the secret, in place of `oauth_client_secret`."""
    oauth_scope: str = ""
    """The scope to ask for, if the token endpoint wants one."""
    oauth_ca_file: str = ""
    """Authorities to trust for the token endpoint, in PEM; by default the system's."""
    oauth_token_source: Annotated[str, AfterValidator(function)] = ""
    """A function that returns token and expiry, "module:function", in place of the endpoint."""
    oauth_extensions: dict[str, str] = Field(default={})
    """Names and values to send with the token, such as Confluent Cloud's logicalCluster."""
    tls_ca_file: str = ""
    """Authorities to trust, in PEM; by default the system's."""
    tls_certificate_file: str = ""
    """The client's certificate, in PEM, if the broker asks for one."""
    tls_key_file: str = ""
    """The key of the client's certificate, in PEM."""

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
