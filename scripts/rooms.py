"""The rooms of the package (its folders and top modules), and their figure.

The figure is in docs/architecture.md. ``python -m scripts.rooms`` prints it. A test checks that
every module imports only what the table `ROOMS` allows, and that the page has this figure.
"""

import ast
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "fair_allocator"

ROOMS: Final[dict[str, set[str]]] = {
    # The rooms that each room may import. They all come before it in this table, so there are no
    # cycles.
    "core": set(),
    "client": set(),
    "text": set(),
    "errors": {"core"},
    "plugins": {"core"},
    "events": {"core", "text"},
    "signing": {"errors"},
    "web": {"errors"},
    "log": {"errors", "text"},
    "shard": {"core", "errors", "events", "log", "signing", "text"},
    "service": {"errors", "log", "shard", "text"},
    "transfer": {"core", "errors", "events", "log", "shard", "text"},
    "audit": {"errors", "events", "log", "shard", "signing", "text"},
    "config": {"core", "errors", "events", "log", "service", "shard", "signing", "text"},
    "wiring": {"config", "errors", "events", "log", "service", "shard"},
    "observe": {"config", "core", "errors", "events", "log", "service", "shard", "text", "web"},
    "front": {"config", "errors", "events", "log", "signing", "text", "web"},
    "simulate": {"config", "core", "errors", "text"},
    "serving": {"config", "errors", "observe", "simulate", "web"},
    "demo": {
        *("audit", "config", "core", "errors", "events", "log", "observe", "service", "serving"),
        *("wiring",),
    },
    "cli": {
        *("audit", "client", "config", "core", "demo", "errors", "events", "front", "log"),
        *("observe", "service", "serving", "shard", "signing", "simulate", "text", "transfer"),
        *("web", "wiring"),
    },
    "__init__": {"core", "log", "plugins"},
    "__main__": {"cli"},
}
"""Every room (a folder or a module of the package), with the rooms that it may import."""


def layer(room: str) -> int:
    """Return the layer of a room: one more than the highest layer that it imports, from 0."""
    return 1 + max((layer(below) for below in ROOMS[room]), default=-1)


def purpose(room: str) -> str:
    """Return the first line of a room's docstring."""
    folder = PACKAGE / room / "__init__.py"
    path = folder if folder.exists() else PACKAGE / f"{room}.py"
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.splitlines()[0].rstrip(".:")


def figure() -> str:
    """Return the figure: the rooms by layer. A room imports only rooms of lower layers."""
    lines = []
    rooms = [room for room in ROOMS if not room.startswith("__")]
    for height in sorted({layer(room) for room in rooms}, reverse=True):
        lines += [
            f"{height:>2}  {room:<10} {purpose(room)}" for room in rooms if layer(room) == height
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(figure())
