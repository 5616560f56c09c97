"""The eligible arms of a request, given as "all except these"."""

from collections.abc import Iterable, Mapping
from typing import Any

from fair_allocator.core.errors import InvalidRequest, shown


class AllBut:
    """All arms of a pool except the given ones. Pass it as `eligible` of a request.

    >>> AllBut(["bob", "ann"])
    AllBut(['ann', 'bob'])
    """

    __slots__ = ("names",)

    def __init__(self, names: Iterable[str] | Any = ()) -> None:
        try:
            if not is_names(names):
                raise TypeError
            self.names = tuple(dict.fromkeys(names))
        except TypeError:
            raise InvalidRequest(
                f"AllBut takes a collection of arm names, got {shown(names)}"
            ) from None

    def __repr__(self) -> str:
        return f"AllBut({sorted(self.names, key=str)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllBut) and set(self.names) == set(other.names)

    def __hash__(self) -> int:
        return hash((AllBut, frozenset(self.names)))


def is_names(names: object) -> bool:
    """Tell whether a value is a collection of names. A single text is not a collection."""
    if isinstance(names, str | bytes | Mapping | AllBut) or not isinstance(names, Iterable):
        return False
    try:
        iter(names)  # an array without dimensions is an Iterable but cannot be iterated
    except TypeError:
        return False
    return True
