"""Repairs the types in rows: SQLite lets any writer of the file put any type anywhere."""

from collections.abc import Callable
from operator import itemgetter
from types import NoneType
from typing import Any, Final

Found = tuple[Any, ...]
"""Number, timestamp, key and value of a record, and its packed headers where there are any."""

_timestamp: Final[Callable[[Any], Any]] = itemgetter(1)
_key: Final[Callable[[Any], Any]] = itemgetter(2)
_value: Final[Callable[[Any], Any]] = itemgetter(3)

_BYTES: Final = frozenset((bytes, NoneType))
_WHOLE: Final = frozenset((int,))


def mended(rows: list[Any]) -> list[Found]:
    """Return rows whose keys and values are bytes and whose timestamps are whole numbers.

    A text counts as its bytes, a number as its text, and an invalid time as the oldest. So such a
    record is checked like any other, and does not block the records after it.
    """
    if (
        _BYTES.issuperset(map(type, map(_value, rows)))
        and _BYTES.issuperset(map(type, map(_key, rows)))
        and _WHOLE.issuperset(map(type, map(_timestamp, rows)))
    ):
        return rows
    return [
        (
            number,
            timestamp if type(timestamp) is int else 0,
            _as_bytes(key),
            _as_bytes(value),
            *map(_as_bytes, packed),
        )
        for number, timestamp, key, value, *packed in rows
    ]


def as_text(stored: bytes) -> str:
    """Return a text of the file; its bytes may be invalid, because SQLite does not check them."""
    return stored.decode("utf-8", "surrogateescape")


def _as_bytes(found: Any) -> bytes | None:
    if found is None or isinstance(found, bytes):
        return found
    return str(found).encode("utf-8", "surrogateescape")
