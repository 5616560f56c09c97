"""What a panel is, as data."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """How a panel draws its queries."""

    TILE = auto()
    LINES = auto()
    STACK = auto()
    BARS = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and what its series are called; a `limit` is drawn dashed."""

    expr: str
    legend: str = ""
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `red_from` is the least value that asks for action, `kept_text` replaces 0."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = Kind.LINES
    width: int = 8
    height: int = 8
    red_from: float | None = None
    kept_text: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row; its panels fill lines of 24 columns."""

    title: str
    panels: tuple[Panel, ...]


HERE: Final = '{namespace=~"$namespace"}'
"""Selects the installation that the dashboard's variable names."""

POOL: Final = '{namespace=~"$namespace", pool=~"$pool"}'
"""Selects its pools that are named."""
