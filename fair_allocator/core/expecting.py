"""Check single values of a state: each function returns a valid value, or raises an error.

`key` is the name of the value in the state. The error message says it.
"""

from collections.abc import Mapping
from math import inf
from typing import Any, NoReturn

from fair_allocator.core.errors import InvalidState, shown


def whole_in(key: str, value: Any, least: int, most: int) -> int:
    """Return a value that must be a whole number; otherwise refuse the state."""
    if type(value) is not int or not least <= value <= most:
        refuse(key, f"a whole number from {least:,} to {most:,}", value)
    return int(value)


def real_in(key: str, value: Any, least: float = -inf, most: float = inf) -> float:
    """Return a value that must be a finite number; otherwise refuse the state."""
    if type(value) not in (int, float) or not least <= value <= most:
        refuse(key, f"a number from {least} to {most}", value)
    return float(value)


def text_in(key: str, value: Any) -> str:
    """Return a value that must be a text; otherwise refuse the state."""
    if not isinstance(value, str):
        refuse(key, "a text", value)
    return str(value)


def list_in(key: str, value: Any, length: int | None = None) -> list[Any]:
    """Return a value that must be a list; otherwise refuse the state."""
    if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
        refuse(key, "a list" if length is None else f"a list of {length:,}", value)
    return list(value)


def mapping_in(key: str, value: Any) -> Mapping[str, Any]:
    """Return a value that must be a mapping; otherwise refuse the state."""
    if not isinstance(value, Mapping):
        refuse(key, "a mapping", value)
    found: Mapping[str, Any] = value
    return found


def refuse(key: str, expected: str, value: Any) -> NoReturn:
    """Refuse a state because of the value of one key."""
    raise InvalidState(f"{key} must be {expected}, got {shown(value)}")
