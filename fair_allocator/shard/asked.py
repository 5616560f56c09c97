"""Requests that a shard keeps because they wait, or may have to be decided again.

The whole record is kept, because the request may become a dead letter, which has the record's
bytes.
"""

from typing import Any, Final

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.events import read_request
from fair_allocator.log.records import Headers, Record

_read_request: Final = read_request

ASKED_BYTES: Final = 500
"""About how many bytes a kept request takes besides its value, its arms and its headers."""

_KEPT: Final = frozenset(("request_id", "pool", "eligible", "needs", "slots"))
"""The fields that a decision needs. Other fields may be large, and the value has them anyway."""


@mypyc_attr(acyclic=True)
class Asked:
    """A request as it was read: the fields of its record, and what it asks for.

    Attributes
    ----------
    offset, timestamp, key, value
        The fields of the request's record.
    headers
        The headers that are copied to the answers.
    event
        The fields of the request that a decision needs.
    """

    __slots__ = ("event", "headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes,
        headers: Headers = (),
        event: dict[str, Any] | None = None,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        fields = _read_request(value) if event is None else event
        if not _KEPT.issuperset(fields):
            fields = {name: field for name, field in fields.items() if name in _KEPT}
        self.event: dict[str, Any] = fields

    @property
    def request_id(self) -> str:
        """The request's id."""
        request_id: str = self.event["request_id"]
        return request_id

    @property
    def footprint(self) -> int:
        """About how many bytes the request takes in memory.

        A text in memory may take five times as many bytes as its UTF-8 form.
        """
        taken = ASKED_BYTES + 6 * len(self.value) + 70 * len(self.event.get("eligible") or ())
        for name, value in self.headers:
            taken += 200 + 4 * len(name) + len(value)
        return taken

    def record(self, partition: int) -> Record:
        """Return the record of the request."""
        return Record(
            "requests",
            partition,
            self.offset,
            self.key,
            self.value,
            self.timestamp,
            self.headers,
        )

    def plain(self) -> list[Any]:
        """Return the record as plain data. Its value is valid UTF-8, because it was JSON.

        The headers are the fifth field, which is left out if there are none.
        """
        key = None if self.key is None else self.key.decode("latin-1")
        plain: list[Any] = [self.offset, self.timestamp, key, self.value.decode()]
        if self.headers:
            plain.append([[name, value.decode("latin-1")] for name, value in self.headers])
        return plain

    @classmethod
    def read(cls, plain: list[Any]) -> "Asked":
        """Return the request from the fields that `plain` returned."""
        offset, timestamp, key, value, *more = plain
        headers = more[0] if more else ()
        return cls(
            offset,
            timestamp,
            None if key is None else key.encode("latin-1"),
            value.encode(),
            tuple([(name, text.encode("latin-1")) for name, text in headers]),
        )


class Waiter:
    """A request that waits until an arm can take it.

    Attributes
    ----------
    asked
        The request.
    instead_of
        The arm that has to be replaced by another arm; "" if the request was not decided yet.
    since
        The shard's time when the request began to wait.
    """

    __slots__ = ("asked", "instead_of", "since")

    def __init__(self, asked: Asked, instead_of: str, since: int) -> None:
        self.asked = asked
        self.instead_of = instead_of
        self.since = since

    @property
    def key(self) -> tuple[str, str]:
        """The key of this entry among the pool's waiting requests: (request id, `instead_of`)."""
        return self.asked.request_id, self.instead_of
