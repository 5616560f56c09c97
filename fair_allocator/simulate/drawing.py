"""Draw the pictures, as PNG and SVG."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fair_allocator.simulate.advice import Advice
from fair_allocator.simulate.crowd import Crowd, CrowdOutcome
from fair_allocator.simulate.figures import LFGS, Curve, Figure, Paper
from fair_allocator.simulate.scenario import Scenario
from fair_allocator.simulate.trial import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""The palette of Okabe and Ito. Colour-blind people can tell its colours apart."""

_FAIR, _PLAIN, _BOUND = COLOURS[0], COLOURS[1], "#777777"
_LFG: Final = ("#F3C35B", "#E69F00", "#B57D00", "#7A5400")
_DPI: Final = 100


def picture(panels: int, title: str, columns: int | None = None) -> tuple["Picture", list["Axes"]]:
    """Return an empty picture with panels in one row, or in `columns` columns if given.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from matplotlib.figure import Figure as Picture

    columns = columns or panels
    rows = -(-panels // columns)
    drawn = Picture(figsize=(5.6 * columns, 4.3 * rows), layout="constrained")
    axes = [drawn.add_subplot(rows, columns, number + 1) for number in range(panels)]
    for each in axes:
        each.set_axisbelow(True)
        each.grid(visible=True, color="#e6e6e6", linewidth=0.7)
        each.spines[["top", "right"]].set_visible(False)
    drawn.suptitle(title, fontsize=12, fontweight="bold")
    return drawn, axes


def save(drawn: "Picture", stem: Path) -> list[Path]:
    """Write a picture as PNG and SVG."""
    return [write(drawn, stem.with_suffix(suffix)) for suffix in (".png", ".svg")]


def write(drawn: "Picture", path: Path) -> Path:
    """Write a picture in the format of the suffix; the same numbers give the same bytes."""
    from matplotlib import rc_context

    if path.suffix == ".png":
        drawn.savefig(path, dpi=_DPI)
    else:
        with rc_context({"svg.hashsalt": "fair-allocator"}):
            drawn.savefig(path, metadata={"Date": None})
    return path


def line(axes: "Axes", curve: Curve, label: str, colour: str, **style: Any) -> None:
    """Draw a mean with two standard errors around it."""
    low = [mean - 2 * se for mean, se in zip(curve.mean, curve.se, strict=True)]
    high = [mean + 2 * se for mean, se in zip(curve.mean, curve.se, strict=True)]
    axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(curve.x, curve.mean, color=colour, label=label, **{"linewidth": 1.8, **style})


def bound(axes: "Axes", curve: Curve, label: str, style: str = "--") -> None:
    """Draw a bound that a curve must stay below."""
    axes.plot(curve.x, curve.mean, color=_BOUND, linestyle=style, linewidth=1.3, label=label)


def thousands(axes: "Axes", *which: str) -> None:
    """Write the numbers of these axes in full, with commas."""
    from matplotlib.ticker import StrMethodFormatter

    for name in which:
        getattr(axes, f"{name}axis").set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def draw_paper(paper: Paper, directory: Path) -> list[Path]:
    """Draw those figures of the paper that were made."""
    drawn = {"2": _draw_cost, "3": _draw_r_regret, "4": _draw_guarantee}
    paths: list[Path] = []
    for name, figure in paper.figures.items():
        paths += save(drawn[name](figure), directory / f"paper-figure{name}")
    return paths


def _draw_cost(figure: Figure) -> "Picture":
    fair = figure["fair-ucb"]
    drawn, (left, right) = picture(2, f"Figure 2: what fairness costs ({fair.runs} runs)")
    bound(left, figure["fair-ucb bound"], "bound on Fair-UCB (Theorem 4)")
    bound(left, figure["ucb1 bound"], "bound on UCB1", ":")
    line(left, figure["ucb1"], "UCB1, no quotas", _PLAIN)
    line(left, fair, "Fair-UCB", _FAIR, marker="o", markersize=3.5)
    left.set(ylabel="regret", title="Regret at the horizon")
    line(right, figure["ucb1 violation"], "UCB1, no quotas", _PLAIN)
    line(right, figure["fair-ucb violation"], "Fair-UCB", _FAIR, marker="o", markersize=3.5)
    bound(right, figure["fair-ucb violation bound"], "bound: tolerance + 1")
    right.set(ylabel="largest r T - N, in pulls", title="Largest deficit at the horizon")
    for axes in (left, right):
        axes.set_xlabel("tolerance alpha, in pulls")
        axes.legend(frameon=False, fontsize=8.5)
        thousands(axes, "x", "y")
    left.set_ylim(bottom=0)
    # With few rounds, every arm may have more than its share: then the deficits are negative.
    lowest = min(min(figure[f"{name} violation"].mean) for name in ("fair-ucb", "ucb1"))
    right.set_ylim(bottom=0 if lowest >= 0 else None)
    return drawn


def _draw_r_regret(figure: Figure) -> "Picture":
    fair = figure["fair-ucb"]
    drawn, (axes,) = picture(1, f"Figure 3: r-regret ({fair.runs} runs)")
    drawn.set_size_inches(8, 5.2)
    bound(axes, figure["fair-ucb bound"], "bound on Fair-UCB (Theorem 2)")
    bound(axes, figure["distribution-free shape"], "shape sqrt(t ln t) of Theorem 3", ":")
    end = figure["t-fair-ucb bound"]
    axes.plot(end.x, end.mean, "v", color=COLOURS[2], label="bound on T-Fair-UCB, at T")
    line(axes, figure["ucb1"], "UCB1, no quotas: its regret", _PLAIN)
    line(axes, figure["t-fair-ucb"], "T-Fair-UCB, T known", COLOURS[2])
    for policy, colour in zip(LFGS, _LFG, strict=True):
        line(axes, figure[policy.name], policy.name.replace("lfg", "LFG,"), colour, linewidth=1.3)
    line(axes, fair, "Fair-UCB", _FAIR, linewidth=2.4)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel="round t", ylabel="r-regret")
    axes.set_xlim(1, fair.x[-1] * 1.3)
    lowest = min(min(curve.mean) for curve in figure.values())
    axes.set_ylim(1.5 * lowest if lowest < -0.5 else 0, None)
    drawn.legend(loc="outside right center", frameon=False, fontsize=8.5)
    return drawn


def _draw_guarantee(figure: Figure) -> "Picture":
    fair = figure["fair-ucb"]
    later = figure["fair-ucb later"]
    title = f"Figure 4: who keeps the quotas ({fair.runs:,} runs; later {later.runs:,})"
    drawn, panels = picture(2, title)
    for axes, suffix in zip(panels, ("", " later"), strict=True):
        line(axes, figure["ucb1" + suffix], "UCB1, no quotas", _PLAIN)
        for policy, colour in zip(LFGS, _LFG, strict=True):
            curve = figure[policy.name + suffix]
            line(axes, curve, policy.name.replace("lfg", "LFG,"), colour, linewidth=1.4)
        bound(axes, figure["fair-ucb bound" + suffix], "bound: tolerance + 1")
        line(axes, figure["fair-ucb" + suffix], "Fair-UCB", _FAIR, linewidth=2.4)
        axes.set(xlabel="round t", ylabel="mean of max (r t - N), in pulls")
    panels[0].set_title("Up to the paper's end")
    panels[0].legend(frameon=False, fontsize=8.5)
    panels[1].set_title("Followed further")
    panels[1].set_xscale("log")
    panels[1].set_yscale("symlog", linthresh=10)
    return drawn


def draw_outcomes(
    scenario: Scenario, outcomes: Mapping[str, Outcome], directory: Path
) -> list[Path]:
    """Draw the outcomes of a scenario: violations, shares, regret and r-regret."""
    runs = next(iter(outcomes.values())).curves["regret"].runs
    drawn, (first, second, third, fourth) = picture(
        4, f"{scenario.horizon:,} rounds, {len(scenario.arms)} arms, {runs:,} runs", columns=2
    )
    for (name, outcome), colour in zip(outcomes.items(), cycle(COLOURS), strict=False):
        for axes, measure in ((first, "worst violation"), (third, "regret"), (fourth, "r-regret")):
            line(axes, outcome.curves[measure], name, colour)
            axes.set(xlabel="round t", title=f"{measure} so far")
            thousands(axes, "x", "y")
    first.set_ylabel("floor(entitled) - pulls")
    first.set_yscale("symlog", linthresh=10)
    first.legend(frameon=False, fontsize=8.5)
    _draw_shares(second, scenario, outcomes)
    return save(drawn, directory / "instance")


def _draw_shares(axes: "Axes", scenario: Scenario, outcomes: Mapping[str, Outcome]) -> None:
    """Draw each arm's quota, and its share of the rounds for which it was there."""
    arms = [arm for arm in scenario.arms if any(arm in o.shares for o in outcomes.values())]
    width = 0.8 / len(outcomes)
    for at, (outcome, colour) in enumerate(zip(outcomes.values(), cycle(COLOURS), strict=False)):
        places = [arms.index(arm) - 0.4 + width * (at + 0.5) for arm in outcome.shares]
        shares = [100 * curve.mean[0] for curve in outcome.shares.values()]
        axes.bar(places, shares, 0.9 * width, color=colour)
    for place, arm in enumerate(arms):
        quota = 100 * float(scenario.arms[arm].share)
        label = "quota" if place == 0 else "_nolegend_"
        axes.hlines(quota, place - 0.45, place + 0.45, color="black", linewidth=2, label=label)
    axes.set_xticks(range(len(arms)), arms, rotation=0 if len(arms) < 8 else 60)
    axes.set(title="share of the rounds an arm was there for", ylabel="%")
    axes.legend(frameon=False, fontsize=8.5)


def draw_advice(advice: Advice, directory: Path) -> list[Path]:
    """Draw what quotas and tolerances cost."""
    drawn, (left, middle, right) = picture(3, f"What quotas cost in {advice.horizon:,} rounds")
    names = [price.arm for price in advice.prices]
    prices, noise = ([getattr(price, key) for price in advice.prices] for key in ("price", "se"))
    left.barh(names, prices, xerr=[2 * se for se in noise], color=_FAIR, ecolor="#444444")
    left.invert_yaxis()
    left.set(xlabel="regret", title="Price of each quota, no tolerance")
    thousands(left, "x")
    panels = (
        (middle, advice.by_tolerance, "tolerance, in pulls", "Regret by tolerance"),
        (right, advice.by_sum, "sum of the quotas, %", "Regret by sum, same proportions"),
    )
    for axes, curves, label, title in panels:
        top = 1.8 * max(curves["fair-ucb"].mean)
        if min(curves["fair-ucb bound"].mean) < top:
            bound(axes, curves["fair-ucb bound"], "bound (Theorem 4)")
        line(axes, curves["ucb1"], "UCB1, no quotas", _PLAIN)
        line(axes, curves["fair-ucb"], "Fair-UCB", _FAIR, marker="o", markersize=3.5)
        axes.set(xlabel=label, ylabel="regret", title=title, ylim=(0, top))
        axes.legend(frameon=False, fontsize=8.5)
        thousands(axes, "x", "y")
    return save(drawn, directory / "advice")


_CROWD: Final = {
    "fair-ucb": (_FAIR,),
    "fair-ucb bank": ("#56B4E9",),
    "fair-thompson": ("#CC79A7",),
    "ucb1": ("#444444",),
    "lfg": ("#F3C35B", "#E69F00", "#A36F00"),
    "tscsf-b": ("#7FD1B9", "#009E73", "#00563E"),
}
"""Colours for each kind of contestant, darker for a larger eta."""


def crowd_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each contestant."""
    kinds = {kind: iter(colours) for kind, colours in _CROWD.items()}
    return {name: next(kinds[name.partition("=")[0].removesuffix(" eta")]) for name in names}


def draw_crowd(
    crowd: Crowd, outcomes: Mapping[str, CrowdOutcome], price: Curve, path: Path
) -> list[Path]:
    """Draw how a crowd was served: shortfall and regret over time, and the longest gaps."""
    title = (
        f"{crowd.workers} workers, each there for {100 * crowd.available:g} % of "
        f"{crowd.rounds:,} requests, quota {float(crowd.quota):g}, {price.runs} runs"
    )
    drawn, (left, middle, right) = picture(3, title)
    colours = crowd_colours(outcomes)
    for name, outcome in outcomes.items():
        ours = name.startswith("fair")
        style = {"linewidth": 2.4, "zorder": 4} if ours else {"linewidth": 1.5}
        line(left, outcome.measures["worst shortfall"], name, colours[name], **style)
        line(right, outcome.measures["regret"], name, colours[name], **style)
    left.set(xlabel="request", ylabel="floor(entitled) - pulls", title="Worst shortfall so far")
    left.set_xscale("log")
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(-0.05, None)
    thousands(left, "y")
    bound(right, price, "price of the quotas,\nmeans known")
    right.lines[-1].set(zorder=5, color="black")
    right.set(xlabel="request", ylabel="regret", title="Regret so far")
    thousands(right, "x", "y")
    right.locator_params(axis="x", nbins=5)
    draw_gaps(middle, outcomes, colours)
    handles, labels = right.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    drawn.set_size_inches(16.5, 4.6)
    return [write(drawn, path)]


def draw_gaps(
    axes: "Axes", outcomes: Mapping[str, CrowdOutcome], colours: Mapping[str, str]
) -> None:
    """Draw each contestant's longest gap over all runs, and its bound if there is one."""
    gaps = [max(each.measures["longest gap"].worst_of_each) for each in outcomes.values()]
    axes.barh(list(outcomes), gaps, color=list(colours.values()))
    for place, (gap, outcome) in enumerate(zip(gaps, outcomes.values(), strict=True)):
        wait = outcome.wait
        _beside(axes, f"{gap:,}", gap, place, left=wait is not None)
        if wait is not None:
            axes.vlines(wait, place - 0.45, place + 0.45, color="black", linewidth=2)
            _beside(axes, f"bound {wait:,}", wait, place)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(10, 4 * max(gaps))
    axes.set(xlabel="own slots in a row without a pull", title="Longest gap of any worker")


def _beside(axes: "Axes", text: str, x: float, y: float, *, left: bool = False) -> None:
    """Write a text to the right of a point, or to its left."""
    side, offset = ("right", -4) if left else ("left", 4)
    axes.annotate(
        text,
        (x, y),
        xytext=(offset, 0),
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize=8.5,
    )
