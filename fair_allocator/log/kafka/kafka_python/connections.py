"""What a client of kafka-python talks through, made quicker, and made to say why it cannot.

No setting of a client reaches what is changed here, and `_connect`, `_build_transport` and
`_sock_recv` are its own affairs: the version is pinned, and a release without these places fails
the tests of passwords and ports on a real broker.
"""

from collections import deque
from functools import partial
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

METADATA_PAUSE_MS: Final = 10
"""Between two looks at where topics are, 100 ms by default: at a start every client has two or
three of them, and it is worth half a second."""

_TIME_IS_UP: Final = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
"""What an attempt ends with that was begun late, whatever the ones before it failed of."""


class Failures(deque[str]):
    """Why connections failed lately, each cause once."""

    def __init__(self) -> None:
        super().__init__(maxlen=5)

    def note(self, error: Exception) -> None:
        """Take note of why a connection was not made, or ended."""
        text = str(error)
        if not isinstance(error, _TIME_IS_UP) and text not in self:
            self.append(text)


def connections(failures: Failures, **configs: Any) -> KafkaNetClient:
    """Make what a client talks through; why a connection fails is noted in `failures`."""
    net = NetworkSelector(**configs)
    client = KafkaNetClient(net, _Manager(net, failures, **configs))
    client.cluster.config["retry_backoff_ms"] = METADATA_PAUSE_MS
    return client


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Tries until the time is up, and then has but a line of its log to say what of."""

    def __init__(self, net: NetworkSelector, failures: Failures, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._failures = failures

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        conn.close_future.add_errback(self._failures.note)
        await super()._connect(node, conn, **options)

    async def _build_transport(self, *arguments: Any, **options: Any) -> Any:
        transport = await super()._build_transport(*arguments, **options)
        transport._sock_recv = partial(_words_before_the_end, transport._sock_recv)
        return transport


def _words_before_the_end(receive: Any) -> tuple[bytes, Exception | None]:
    """Receive; what came together with the end of the connection is handed on, not dropped.

    A broker says that a password is wrong and hangs up. The end is met again by the next read.
    """
    received, error = receive()
    return received, None if received else error
