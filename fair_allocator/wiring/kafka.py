"""Make the log on Kafka from the configuration."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from fair_allocator.config import Configuration, KafkaSection, secret_of
from fair_allocator.config.keys import variable
from fair_allocator.errors import ConfigurationError
from fair_allocator.events import redelivered
from fair_allocator.log import TOPICS
from fair_allocator.log.kafka import (
    DELIVERIES,
    KafkaClient,
    KafkaLog,
    KafkaSettings,
    OAuth,
    Security,
    default_instance,
    driver,
    longest_wait,
)
from fair_allocator.log.kafka.driver import Admin
from fair_allocator.log.kafka.reading import reaching
from fair_allocator.log.kafka.topics import findings, new_topics
from fair_allocator.wiring.backend import Backend, ServedTopic, TopicCheck, TopicFinding


class Kafka(Backend):
    """The log on a Kafka cluster, through one of the client libraries."""

    def __init__(self, client: str) -> None:
        self._client = client

    def name(self, configuration: Configuration) -> str:
        kafka = configuration.kafka
        return f"{kafka.topic_prefix}* at {kafka.bootstrap_servers}"

    def open_log(self, configuration: Configuration, *, exactly_once: bool) -> KafkaLog:
        settings = kafka_settings(configuration)
        if exactly_once:
            settings = replace(settings, delivery=DELIVERIES[0])
        partitions = configuration.log.partitions
        return KafkaLog(driver(self._client, settings), settings, partitions, mark=redelivered)

    def open_client(
        self,
        configuration: Configuration,
        *,
        create: bool,  # noqa: ARG002
    ) -> KafkaClient:
        settings = kafka_settings(configuration)
        partitioner = configuration.log.partitioner
        return KafkaClient(driver(self._client, settings), settings, partitioner=partitioner)

    def check(self, configuration: Configuration) -> None:
        stuck = configuration.service.stuck_seconds
        patience = longest_wait(configuration.kafka.transaction_seconds)
        if stuck < patience:
            raise ConfigurationError(
                f"service.stuck_seconds ({stuck:g}) must be at least {patience:g}, "
                "which is kafka.transaction_seconds and 15: so long a restore may wait for the "
                "transaction that a dead instance left open, and would count as stuck"
            )

    def check_topics(self, configuration: Configuration, *, create: bool) -> TopicCheck:
        settings = kafka_settings(configuration)
        with reaching(settings), closing(driver(self._client, settings).admin()) as admin:
            created = _create(admin, configuration) if create else set()
            counts = admin.partition_counts()
            found = findings(admin, configuration.log.partitions)
        topics = [
            ServedTopic(topic, settings.topics[topic], counts[topic], topic in created)
            for topic in TOPICS
            if topic in counts
        ]
        return TopicCheck(topics, [TopicFinding(*each) for each in found], settings.topics)


def _create(admin: Admin, configuration: Configuration) -> set[str]:
    """Make the missing topics; return their names."""
    wanted = new_topics(configuration.log.partitions, configuration.kafka.replication)
    missing = {t: new for t, new in wanted.items() if t not in admin.partition_counts()}
    return admin.create(missing) if missing else set()


def kafka_settings(configuration: Configuration) -> KafkaSettings:
    """Return the settings of the log on Kafka.

    Raises
    ------
    ConfigurationError
        If the password cannot be read, or Kafka does not allow a configured name.
    """
    kafka = configuration.kafka
    return KafkaSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=kafka.topic_prefix,
        group=kafka.group,
        instance=kafka.instance or default_instance(),
        delivery=kafka.delivery,
        transactional_id=kafka.transactional_id,
        session_seconds=kafka.session_seconds,
        transaction_seconds=kafka.transaction_seconds,
        request_seconds=kafka.request_seconds,
        rebalance_seconds=kafka.rebalance_seconds,
        security=_security(kafka),
    )


def _security(kafka: KafkaSection) -> Security:
    security = Security(
        protocol=kafka.security_protocol,
        mechanism=kafka.sasl_mechanism,
        username=kafka.sasl_username,
        ca_file=kafka.tls_ca_file,
        certificate_file=kafka.tls_certificate_file,
        key_file=kafka.tls_key_file,
    )
    if security.uses_password:
        given = kafka.sasl_password, kafka.sasl_password_file
        password = _secret(f"kafka.security_protocol {security.protocol}", "sasl_password", *given)
        return replace(security, password=password)
    return replace(security, oauth=_oauth(kafka)) if security.uses_tokens else security


def _oauth(kafka: KafkaSection) -> OAuth:
    secret = ""
    if kafka.oauth_token_url:
        given = kafka.oauth_client_secret, kafka.oauth_client_secret_file
        secret = _secret("kafka.oauth_token_url", "oauth_client_secret", *given)
    return OAuth(
        token_url=kafka.oauth_token_url,
        client_id=kafka.oauth_client_id,
        client_secret=secret,
        scope=kafka.oauth_scope,
        ca_file=kafka.oauth_ca_file,
        token_source=kafka.oauth_token_source,
        extensions=tuple(kafka.oauth_extensions.items()),
    )


def _secret(what: str, key: str, value: SecretStr, file: Path | None) -> str:
    """Return the secret of the setting `key`, given directly or in a file.

    `what` needs the secret; the error message names it.
    """
    secret = secret_of(f"kafka.{key}", value, file)
    if not secret:
        kind = "password" if "password" in key else "secret"
        raise ConfigurationError(
            f"{what} needs a {kind}: give it in {variable(('kafka', key))} or kafka.{key}_file"
        )
    return secret
