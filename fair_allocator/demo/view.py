"""Show the demo while it runs: a live table on a terminal, otherwise a few lines."""

import time
from collections.abc import Sequence
from math import inf
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fair_allocator.demo.board import Row
from fair_allocator.demo.play import Play

KEPT: Final = "dodger_blue1"
SHORT: Final = "orange1"
FAINT: Final = "grey58"

_WIDEST_BAR: Final = 24
_NARROWEST_BAR: Final = 8
_BETWEEN_FRAMES: Final = 0.15


class Screen(Protocol):
    """Shows a play while it runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, play: Play) -> None:
        """Show the current state of the play."""


def view_for(console: Console) -> Screen:
    """Return a view for a terminal, or for a plain output."""
    plain = not console.is_terminal or console.is_dumb_terminal
    return Lines(console) if plain else Terminal(console)


# -- lines ------------------------------------------------------------------------------------


class Lines:
    """Prints a line after every tenth of the requests."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tenth = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, play: Play) -> None:
        """Print a line if another tenth is done."""
        tenth = play.load.answered * 10 // play.requests
        if tenth > self._tenth:
            self._tenth = tenth
            words, rival = play.world.words, play.rival
            self._console.print(
                f"{play.load.answered:,} of {play.requests:,} {words.request}s: {answer(play)}; "
                f"{play.world.rival} leaves {len(rival.short())} of {len(rival.rows)} {words.arm}s "
                f"short now, at worst so far one by {rival.peak:,} {words.request}s; longest wait "
                f"{play.ours.gap:,} slots, with {play.world.rival} {rival.gap:,}",
                soft_wrap=True,
                highlight=False,
            )


def answer(play: Play) -> str:
    """Return a line that says whether every guarantee was kept."""
    verdict, allowed = play.verdict, f"{play.world.tolerance} allowed"
    if verdict.first is not None:
        return f"every guarantee kept: NO: {verdict.first}"
    return f"every guarantee kept: yes (worst shortfall {play.ours.peak}, {allowed})"


# -- a terminal -------------------------------------------------------------------------------


class Terminal:
    """Draws a table again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._next = -inf

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, play: Play) -> None:
        """Draw the table again, but not more often than a person can see."""
        began = time.monotonic()
        if play.left and began < self._next:
            return
        options = self._console.options
        frame = ScreenFrame(
            play, self._console.width, self._console.height, ascii=options.ascii_only
        )
        self._live.update(frame.draw(), refresh=True)
        # On a slow machine, draw less often.
        self._next = began + max(_BETWEEN_FRAMES, 6 * (time.monotonic() - began))


class ScreenFrame:
    """One picture of a play that fits the terminal."""

    def __init__(self, play: Play, width: int, height: int, *, ascii: bool = False) -> None:
        self._play = play
        self._width = width
        self._height = height
        self._ascii = ascii
        self._roomy = width >= 118
        taken = 91 if self._roomy else 60
        self._bar = max(_NARROWEST_BAR, min(_WIDEST_BAR, (width - taken) // 2))

    def draw(self) -> RenderableType:
        """Return the whole picture."""
        return Group(
            self._progress(),
            Text(),
            self._verdict(),
            Text(),
            self._tables(),
            Text(),
            self._crowding(),
            self._worst(),
            self._legend(),
        )

    def _progress(self) -> RenderableType:
        play, done = self._play, self._play.load.answered
        words, pace = play.world.words, done / max(0.001, play.seconds)
        line = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [
            Text("fair-allocator", style="bold"),
            ProgressBar(play.requests, done, 16, complete_style=KEPT, finished_style=KEPT),
            f"{done:,} of {play.requests:,} {words.request}s, {pace:,.0f} a second",
        ]
        if self._width >= 100:
            grading = play.load.grading
            lost = f"{grading.declined:,} declined, {grading.lost:,} never graded"
            cells.append(Text(lost, style=FAINT))
        line.add_row(*cells)
        return line

    def _crowding(self) -> Text:
        play, words = self._play, self._play.world.words
        (tenth, ours), (_, rival) = play.ours.busiest(), play.rival.busiest()
        busiest = "Busiest one" if tenth == 1 else f"Busiest {tenth}"
        return Text(
            f"{busiest} of {len(play.ours.rows)}: {ours:.0%} of the {words.request}s. "
            f"{play.world.rival}: {rival:.0%}, and {len(play.rival.short())} fall short."
        )

    def _worst(self) -> Text:
        play = self._play
        return Text(
            f"Worst shortfall: {play.ours.peak:,}, longest wait: {play.ours.gap:,} slots. "
            f"{play.world.rival}: {play.rival.peak:,} and {play.rival.gap:,}."
        )

    def _legend(self) -> Text:
        mark = "|" if self._ascii else "┃"
        legend = f"{mark} marks the promised share; a bar that ends before it fell short"
        if self._roomy:
            legend += "   forced: to keep a promise   learned: free choice"
        return Text(legend, style=FAINT)

    def _verdict(self) -> RenderableType:
        play, verdict = self._play, self._play.verdict
        big = Text(" YES ", style="bold white on green4")
        worst = f"worst shortfall {play.ours.peak} ({play.world.tolerance} allowed)"
        why = f"{worst} in {play.ours.rounds:,} rounds"
        if verdict.first is not None:
            big, why = Text(" NO ", style="bold white on red3"), str(verdict.first)
        question = Text("Every guarantee kept: ", style="bold")
        return Text.assemble(question, big, "  ", (why, FAINT))

    # -- the two tables -----------------------------------------------------------------------

    def _tables(self) -> RenderableType:
        pair = Table.grid(padding=(0, 3))
        pair.add_row(self._ours(), self._plain())
        return pair

    def _shown(self) -> Sequence[Row | None]:
        """Return the rows of our board.

        If there is no room for all, None stands for those in the middle.
        """
        places = {arm.name: place for place, arm in enumerate(self._play.world.arms)}
        rows = sorted(self._play.ours.rows.values(), key=lambda row: places[row.arm.name])
        room = self._height - 12
        if len(rows) <= room:
            return rows
        first = max(1, room // 3)
        last = max(1, room - first - 1)
        return [*rows[:first], None, *rows[-last:]]

    def _ours(self) -> Table:
        board, words = self._play.ours, self._play.world.words
        table = _table("fair-allocator", KEPT)
        table.add_column(words.arm, no_wrap=True)
        table.add_column(words.skill, justify="right", no_wrap=True)
        self._add_share_columns(table)
        table.add_column("promised", justify="right", no_wrap=True)
        table.add_column("short", justify="right", no_wrap=True)
        if self._roomy:
            for name in (words.request + "s", "forced", "learned", "mean"):
                table.add_column(name, justify="right", no_wrap=True)
        hidden = len(board.rows) - len(self._shown()) + 1
        for row in self._shown():
            if row is None:
                table.add_row(Text(f"{hidden} more", style=FAINT))
                continue
            label = Text(row.arm.name)
            if row.arm.newcomer:
                label.append(" new", style=FAINT)
            cells: list[RenderableType] = [label, Text(words.grade(row.arm.skill), style=FAINT)]
            cells += self._share_cells(row)
            cells += [f"{float(row.arm.quota):.1%}", _shortfall(row)]
            if self._roomy:
                mean = "-" if row.mean is None else f"{row.mean:.2f}"
                cells += [f"{row.pulls:,}", f"{row.forced:,}", f"{row.pulls - row.forced:,}", mean]
            table.add_row(*cells)
        return table

    def _plain(self) -> Table:
        board = self._play.rival
        table = _table(f"beside it: {self._play.world.rival}", SHORT)
        self._add_share_columns(table)
        table.add_column("short", justify="right", no_wrap=True)
        for shown in self._shown():
            row = None if shown is None else board.rows.get(shown.arm.name)
            if row is None:
                table.add_row()
            else:
                table.add_row(*self._share_cells(row), _shortfall(row))
        return table

    def _add_share_columns(self, table: Table) -> None:
        table.add_column("share", width=self._bar, no_wrap=True)
        table.add_column("", justify="right", no_wrap=True, min_width=6)

    def _share_cells(self, row: Row) -> list[RenderableType]:
        share = row.share()
        kept = row.shortfall() <= 0
        bar = share_bar(share / float(row.arm.quota), self._bar, kept=kept, ascii=self._ascii)
        return [bar, f"{share:.1%}"]


def share_bar(ratio: float, width: int, *, kept: bool, ascii: bool = False) -> Text:
    """Draw a share as a bar.

    The mark in the middle is the quota. The end of the bar is twice the quota or more.

    >>> print(share_bar(0.5, 8, kept=False, ascii=True))
    ##  |
    """
    block, mark, beyond = ("#", "|", ">") if ascii else ("▇", "┃", "▶")
    middle = width // 2
    filled = min(width, round(ratio * middle))
    if not kept:  # the bar must not reach the mark, even if very little is missing
        filled = min(filled, middle - 1)
    text = Text(style=KEPT if kept else SHORT)
    cells = [block] * filled + [" "] * (width - filled)
    if ratio > 2:
        cells[-1] = beyond
    text.append("".join(cells[:middle]))
    text.append(mark, style="bold white")
    text.append("".join(cells[middle + 1 :]).rstrip() if width > middle else "")
    text.rstrip()
    return text


def _shortfall(row: Row) -> Text:
    shortfall = row.shortfall()
    return Text(f"{max(0, shortfall):,}", style=SHORT if shortfall > 0 else FAINT)


def _table(title: str, style: str) -> Table:
    return Table(
        title=title,
        title_style=f"bold {style}",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        header_style=FAINT,
        pad_edge=False,
    )
