"""Draw the picture at the end: the shares, the shortfalls and gaps, and the cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fair_allocator.demo.board import Board
from fair_allocator.demo.play import Play
from fair_allocator.demo.world import Arm, Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS: Final = "#0072B2"
RIVAL: Final = "#D55E00"
QUOTA: Final = "#222222"
FAINT: Final = "#666666"
"""The colours of the picture.

Blue and vermilion are from the palette of Okabe and Ito, which suits colour-blind people.
"""


def draw(play: Play, path: Path) -> None:
    """Write the picture, in the format of the path's ending.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    words, requests = play.world.words, play.load.answered
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    grid = figure.add_gridspec(3, 2, width_ratios=(1.15, 1))
    _draw_shares(figure.add_subplot(grid[:, 0]), play)
    _draw_shortfall(figure.add_subplot(grid[0, 1]), play)
    _draw_gap(figure.add_subplot(grid[1, 1]), play)
    _draw_regret(figure.add_subplot(grid[2, 1]), play)
    kept = "the promised shares were kept at every moment"
    figure.suptitle(
        f"{requests:,} {words.request}s, {len(play.ours.rows)} {words.arm}s: "
        + (kept if play.verdict.ok else f"promises were broken, at worst by {play.ours.peak}"),
        fontsize=14,
        fontweight="bold",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_shares(axes: "Axes", play: Play) -> None:
    """Draw one row per arm: its quota, its share with the service, and its share with the rival."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    words = play.world.words
    arms = [arm for arm in play.world.arms if arm.name in play.ours.rows]
    places = list(range(len(arms)))[::-1]
    ours, rival = (_shares(board, [arm.name for arm in arms]) for board in (play.ours, play.rival))
    quotas = [100 * float(arm.quota) for arm in arms]
    axes.hlines(places, rival, ours, color="#cccccc", linewidth=2, zorder=1)
    axes.scatter(
        quotas, places, marker="|", s=190, color=QUOTA, linewidth=2.2, label="promised", zorder=4
    )
    axes.scatter(rival, places, marker="v", s=48, color=RIVAL, label=play.world.rival, zorder=2)
    axes.scatter(ours, places, marker="o", s=48, color=OURS, label=play.world.ours, zorder=3)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(places, [_label(arm, words) for arm in arms])
    axes.set_xlabel(f"share of what the {words.arm} could take (logarithmic)")
    axes.set_title(f"Who gets the {words.request}s", loc="left", fontsize=11)
    axes.legend(loc="lower right", frameon=True)
    _tidy(axes, grid="x")


def _label(arm: Arm, words: Words) -> str:
    return f"{arm.name} ({words.grade(arm.skill)}{', new' if arm.newcomer else ''})"


def _shares(board: Board, names: list[str]) -> list[float]:
    # A logarithmic axis has no place for a share of 0, so draw it at 0.01 %.
    return [max(0.01, 100 * board.rows[name].share()) for name in names]


def _draw_shortfall(axes: "Axes", play: Play) -> None:
    words, allowed = play.world.words, play.world.tolerance
    for board, colour, name, width in _boards(play):
        x, y = zip(*((m.requests, m.worst) for m in board.moments), strict=True)
        label = f"{name}: at worst {board.peak:,}"
        axes.plot(x, y, color=colour, linewidth=width, label=label)
    axes.axhline(allowed, color=QUOTA, linewidth=1.2, linestyle="--", label=f"allowed: {allowed}")
    axes.set_ylabel(f"{words.request}s behind")
    axes.set_title(
        f"How far the worst-off {words.arm} is behind the promise", loc="left", fontsize=11
    )
    axes.legend(loc="best", frameon=False)
    _draw_time(axes, play)
    _tidy(axes, grid="y")


def _draw_gap(axes: "Axes", play: Play) -> None:
    words = play.world.words
    for board, colour, name, width in _boards(play):
        x, y = zip(*((m.requests, m.gap) for m in board.moments), strict=True)
        axes.plot(x, y, color=colour, linewidth=width, label=f"{name}: {board.gap:,}")
    axes.set_ylabel("slots")
    axes.set_title(
        f"The longest that any {words.arm} went without one so far", loc="left", fontsize=11
    )
    axes.legend(loc="best", frameon=False)
    _draw_time(axes, play)
    _tidy(axes, grid="y")


def _boards(play: Play) -> list[tuple[Board, str, str, float]]:
    return [(play.rival, RIVAL, play.world.rival, 2.0), (play.ours, OURS, play.world.ours, 3.0)]


def _draw_regret(axes: "Axes", play: Play) -> None:
    words = play.world.words
    for board, colour, name, _ in _boards(play):
        x, y = zip(*((m.requests, m.regret) for m in board.moments), strict=True)
        label = f"{name}: {board.worth / max(1, board.given):.1%} of full reward"
        axes.plot(x, y, color=colour, linewidth=2.2, label=label)
    if not play.world.real:
        x, y = zip(*((m.requests, m.price) for m in play.ours.moments), strict=True)
        label = f"the quotas' own price (every {words.arm} known)"
        axes.plot(x, y, color=OURS, linewidth=1.5, linestyle=":", label=label)
    axes.set_xlabel(f"{words.request}s")
    axes.set_ylabel(f"{words.reward} given up")
    axes.set_title(
        f"What it costs, against always the best {words.arm}s there", loc="left", fontsize=11
    )
    axes.legend(loc="upper left", frameon=False)
    _draw_time(axes, play)
    _tidy(axes, grid="y")


def _draw_time(axes: "Axes", play: Play) -> None:
    """Write numbers in full, and mark when the newcomers join."""
    from matplotlib.ticker import FuncFormatter

    joining = play.world.joining
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.margins(x=0.01)
    if play.load.sent > joining:
        axes.axvline(joining, color=FAINT, linewidth=1, linestyle=(0, (1, 3)))
        axes.annotate(
            " newcomers join",
            (joining, 0.12),
            xycoords=("data", "axes fraction"),
            color=FAINT,
            fontsize=9,
        )


def _tidy(axes: "Axes", grid: str) -> None:
    axes.grid(axis="x" if grid == "x" else "y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
