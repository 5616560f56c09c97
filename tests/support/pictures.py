"""Look at pictures in tests without writing them to files."""

from pathlib import Path
from typing import Any

import pytest

from fair_allocator.simulate import drawing


def kept_pictures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which every picture is added that would be saved to a file."""
    drawn: list[Any] = []

    def keep(picture: object, _stem: Path) -> list[Path]:
        drawn.append(picture)
        return []

    monkeypatch.setattr(drawing, "save", keep)
    return drawn
