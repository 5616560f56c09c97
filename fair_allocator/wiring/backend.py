"""What the program needs from each kind of log. Each kind has a subclass of `Backend`."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from fair_allocator.config import Configuration
from fair_allocator.log import Log, LogClient


class ServedTopic(NamedTuple):
    """A topic, its name in the log, and whether it was made just now."""

    topic: str
    name: str
    partitions: int
    created: bool


class TopicFinding(NamedTuple):
    """A remark about a topic. If `wrong` is true, the service does not start."""

    topic: str
    wrong: bool
    message: str


class TopicCheck(NamedTuple):
    """The topics that exist, what was found about them, and their names in the log."""

    topics: list[ServedTopic]
    findings: list[TopicFinding]
    names: dict[str, str]


class Backend(ABC):
    """One kind of log. Its methods make the log from a configuration."""

    @abstractmethod
    def name(self, configuration: Configuration) -> str:
        """Return the name of the configured log for messages."""

    @abstractmethod
    def open_log(self, configuration: Configuration, *, exactly_once: bool) -> Log:
        """Return the log for a service, not opened yet.

        With `exactly_once`, its commits are transactions over all partitions, even if another mode
        is configured.
        """

    @abstractmethod
    def open_client(self, configuration: Configuration, *, create: bool) -> LogClient:
        """Return a client of the log. With `create`, make the log first if it does not exist."""

    @abstractmethod
    def check(self, configuration: Configuration) -> None:
        """Raise `ConfigurationError` if settings contradict each other on this kind of log."""

    @abstractmethod
    def check_topics(self, configuration: Configuration, *, create: bool) -> TopicCheck | None:
        """Check the topics. With `create`, make the missing ones first.

        Return None if the log makes its topics itself, so that there is nothing to check.
        """
