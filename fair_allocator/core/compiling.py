"""Hints on classes for mypyc, the compiler. In code that is not compiled, they have no effect."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    Class = TypeVar("Class", bound=type)

    def mypyc_attr(**_: bool) -> Callable[[Class], Class]:
        """Return a decorator that changes nothing."""
        return lambda decorated: decorated
