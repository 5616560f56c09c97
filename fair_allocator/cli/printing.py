"""Print results: tables, JSON, progress bars, and texts of others without control characters."""

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BufferedIOBase
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Thing = TypeVar("Thing")


def shown(text: str) -> str:
    r"""Return a text of another program, escaped if a terminal would not show it as it is.

    >>> shown("tasks"), shown("\x1b[2J")
    ('tasks', "'\\x1b[2J'")
    """
    return text if text.isprintable() and text else ascii(text)


def moment(milliseconds: int) -> str:
    """Return a time as text in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00Z'
    """
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def print_json(data: object) -> None:
    """Print plain data for a script."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns: text to the left, numbers to the right, and a dash for None."""
    cells = [["-" if cell is None else _cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [
        all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))
    ]
    for row in [list(columns), *cells]:
        padded = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _cell(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


class Bar:
    """A progress bar; it prints nothing if standard error is not a terminal."""

    def __init__(self, progress: "Progress", what: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)
        self._grain = (total or 0) // 500
        self._steps = 0

    def advance(self, steps: int) -> None:
        """Advance the bar. This is fast enough to be called for each record."""
        self._steps += steps
        if self._steps > self._grain:
            self._progress.advance(self._task, self._steps)
            self._steps = 0


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Bar]:
    """Show progress on standard error while the block runs, if that is a terminal."""
    # Imported only here: the service shows no bars and must start fast.
    from rich import progress as bars
    from rich.console import Console

    progress = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with progress:
        yield Bar(progress, what, total)


def with_bar(what: str, things: Iterable[Thing], total: int) -> Iterator[Thing]:
    """Yield things, and show on a bar how many are done."""
    with bar(what, total) as progress:
        for thing in things:
            yield thing
            progress.advance(1)


def size_of(file: BufferedIOBase) -> int | None:
    """Return the size of a file in bytes, None if it is not a regular file."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
