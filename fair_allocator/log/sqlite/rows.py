"""Repair the types in rows, because SQLite accepts a value of any type in any column."""

from collections.abc import Callable
from operator import itemgetter
from types import NoneType
from typing import Any, Final

Found = tuple[Any, ...]
"""Number, timestamp, key and value of a record, and its packed headers where there are any."""

_timestamp: Final[Callable[[Any], Any]] = itemgetter(1)
_key: Final[Callable[[Any], Any]] = itemgetter(2)
_value: Final[Callable[[Any], Any]] = itemgetter(3)
_packed: Final[Callable[[Any], Any]] = itemgetter(4)

_BYTES: Final = frozenset((bytes, NoneType))
_WHOLE: Final = frozenset((int,))


def mended(rows: list[Any]) -> list[Found]:
    """Return the rows with bytes as keys, values and headers, and whole numbers as timestamps.

    A text becomes its bytes, a number becomes its text, and an invalid time becomes 0. So such a
    record is checked like any other, and does not block the records after it.
    """
    if (
        _BYTES.issuperset(map(type, map(_value, rows)))
        and _BYTES.issuperset(map(type, map(_key, rows)))
        and _WHOLE.issuperset(map(type, map(_timestamp, rows)))
        and (not rows or len(rows[0]) == 4 or _BYTES.issuperset(map(type, map(_packed, rows))))
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
    """Return a text from the file. SQLite does not check that its bytes are UTF-8."""
    return stored.decode("utf-8", "surrogateescape")


def _as_bytes(found: Any) -> bytes | None:
    if found is None or isinstance(found, bytes):
        return found
    return str(found).encode("utf-8", "surrogateescape")
