"""Make the embedded log from the configuration."""

from fair_allocator.config import Configuration
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.wiring.backend import Backend


class Embedded(Backend):
    """The embedded log in a SQLite file.

    Its commits are always transactions over all partitions.
    """

    def name(self, configuration: Configuration) -> str:
        return str(configuration.log.path)

    def open_log(
        self,
        configuration: Configuration,
        *,
        exactly_once: bool,  # noqa: ARG002
    ) -> SqliteLog:
        log = configuration.log
        return SqliteLog(
            log.path,
            log.partitions,
            retain_records=log.retain_records,
            retain_seconds=log.retain_seconds,
            partitioner=log.partitioner,
        )

    def open_client(self, configuration: Configuration, *, create: bool) -> SqliteClient:
        log = configuration.log
        partitions = log.partitions if create else None
        return SqliteClient(log.path, partitions, partitioner=log.partitioner)

    def check(self, configuration: Configuration) -> None:
        """Accept all settings, because on this log no settings can contradict each other."""

    def check_topics(
        self,
        configuration: Configuration,  # noqa: ARG002
        *,
        create: bool,  # noqa: ARG002
    ) -> None:
        return None
