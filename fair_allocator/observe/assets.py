"""The files of the page, read once at the start."""

from importlib.resources import files
from typing import Final, NamedTuple


class Asset(NamedTuple):
    """A file of the page, as the server sends it."""

    content: bytes
    content_type: str


_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}


def _read() -> dict[str, Asset]:
    assets = {}
    for file in files(__package__).joinpath("page").iterdir():
        kind = file.name.rpartition(".")[2]
        if kind in _TYPES:
            assets[f"/{file.name}"] = Asset(file.read_bytes(), _TYPES[kind])
    assets["/"] = assets.pop("/index.html")
    return assets


ASSETS: Final = _read()
"""The files by path."""
