"""Check the claims of the paper against the numbers of a run."""

from collections.abc import Iterator
from math import hypot, log
from typing import Final, NamedTuple

from fair_allocator.simulate.figures import LFGS, Curve, Figure, Paper
from fair_allocator.simulate.policies import COST, Instance

_SURE: Final = 4.0
"""A difference of more standard errors than this counts as real: chance alone gives so large a
difference at only about 1 in 16,000 points."""

_COMPARABLE: Final = 2.0
"""Two curves are called comparable within this factor."""


VERDICTS: Final = {True: "agrees", False: "does not agree", None: "not reached"}


class PaperFinding(NamedTuple):
    """A claim of the paper, whether the numbers agree (None: too few rounds), and the numbers."""

    figure: str
    claim: str
    agrees: bool | None
    numbers: str


def findings(paper: Paper) -> list[PaperFinding]:
    """Return the findings for all figures of the run."""
    checks = {"2": _cost, "3": _r_regret, "4": _guarantee}
    return [
        PaperFinding(name, *found)
        for name, figure in paper.figures.items()
        for found in checks[name](figure)
    ]


Found = Iterator[tuple[str, bool | None, str]]


def _cost(figure: Figure) -> Found:
    fair, plain = figure["fair-ucb"], figure["ucb1"]
    short, bound = figure["fair-ucb violation"], figure["fair-ucb bound"]
    slacks, worst = fair.x, fair.worst_of_each
    yield (
        "no arm is ever short by more than the tolerance",
        all(w <= slack for w, slack in zip(worst, slacks, strict=True)),
        "worst floor(r t) - N over every t, arm and run, beside its tolerance: "
        + ", ".join(f"{w:,} of {slack:,}" for w, slack in zip(worst, slacks, strict=True)),
    )
    yield (
        "regret falls as the tolerance grows",
        _falls(fair),
        (
            f"from {fair.mean[0]:,.0f} at {slacks[0]:,} to {fair.mean[-1]:,.0f} at {slacks[-1]:,} "
            f"(standard errors {fair.se[0]:,.0f} and {fair.se[-1]:,.0f})"
        ),
    )
    same = [at for at in range(len(slacks)) if _below(fair, at, plain, at)]
    yield (
        "from some tolerance on, quotas cost nothing beside UCB1",
        bool(same),
        f"from {slacks[same[0]]:,} on: {fair.mean[same[0]]:,.0f} against UCB1's "
        f"{plain.mean[0]:,.0f}; with no tolerance the regret is "
        f"{fair.mean[0] / plain.mean[0]:.1f} times UCB1's"
        if same
        else f"UCB1 has {plain.mean[0]:,.0f}, Fair-UCB at the end still {fair.mean[-1]:,.0f}",
    )
    yield (
        "the largest deficit grows with the tolerance up to there",
        _falls(_negative(short)),
        f"from {short.mean[0]:,.1f} to {short.mean[-1]:,.0f}",
    )
    yield _bounded("regret stays below Theorem 4 in the appendix's form", fair, bound)
    yield _bounded("UCB1's regret stays below its bound", plain, figure["ucb1 bound"])


def _r_regret(figure: Figure) -> Found:
    fair, last = figure["fair-ucb"], len(figure["fair-ucb"].x) - 1
    yield (
        "Fair-UCB keeps every quota at every round",
        fair.worst == 0,
        f"worst floor(r t) - N: Fair-UCB {fair.worst}; "
        + ", ".join(f"{p.name} {figure[p.name].worst:,}" for p in LFGS),
    )
    yield _bounded("r-regret stays below Theorem 2 at every t", fair, figure["fair-ucb bound"])
    yield _bounded(
        "T-Fair-UCB's r-regret at the horizon stays below its bound",
        _end(figure["t-fair-ucb"]),
        figure["t-fair-ucb bound"],
    )
    top = max(range(last + 1), key=fair.mean.__getitem__)
    before = max(at for at, t in enumerate(fair.x) if t * 10 <= fair.x[-1] or at == 0)
    growth = log(fair.x[-1]) / log(fair.x[before])
    yield (
        "r-regret grows no faster than a logarithm in the end",
        fair.mean[-1] <= growth * fair.mean[before] + _SURE * (fair.se[-1] + fair.se[before]),
        (
            f"{fair.mean[before]:,.0f} at t = {fair.x[before]:,}, {fair.mean[-1]:,.0f} at t = "
            f"{fair.x[-1]:,}; the largest is {fair.mean[top]:,.0f} at t = {fair.x[top]:,}"
        ),
    )
    yield (
        f"LFG with some eta is comparable in r-regret (within a factor of {_COMPARABLE:.0f})",
        any(_comparable(figure[p.name].mean[-1], fair.mean[-1]) for p in LFGS),
        "; ".join(
            f"at t = {fair.x[at]:,} Fair-UCB {fair.mean[at]:,.0f}, LFG "
            + ", ".join(f"{figure[p.name].mean[at]:,.0f} ({p.name[4:]})" for p in LFGS)
            for at in sorted({before, last})
        ),
    )
    settled = settled_from(COST)
    yield (
        "r-regret is constant once the quotas alone tell the arms apart",
        fair.mean[-1] <= figure["fair-ucb bound"].mean[-1] if fair.x[-1] >= settled else None,
        (
            f"on this instance the proof needs t = {settled:,}, the run ends at {fair.x[-1]:,}; "
            f"there it is {fair.mean[-1]:,.1f}"
        ),
    )


def _guarantee(figure: Figure) -> Found:
    fair = figure["fair-ucb"]
    yield (
        "Fair-UCB keeps every quota at every round",
        fair.worst == 0 and max(fair.mean) < 1,
        f"worst floor(r t) - N {fair.worst}, largest mean of max(r t - N) {max(fair.mean):.2f}; "
        "worst of LFG "
        + ", ".join(f"{figure[p.name].worst} ({p.name[4:]})" for p in LFGS)
        + f"; of UCB1 {figure['ucb1'].worst}",
    )
    t = fair.x[-1]
    growing = [p for p in LFGS if figure[p.name].mean[-1] > max(1, figure[p.name].mean[t // 2 - 1])]
    yield (
        f"LFG's deficit, with some eta, grows up to t = {t}",
        bool(growing),
        "mean of max(r t - N) at the end: "
        + ", ".join(f"{figure[p.name].mean[-1]:.1f} ({p.name[4:]})" for p in LFGS),
    )
    ends = {p.name[4:]: figure[p.name + " later"].mean[-1] for p in growing}
    yield (
        "where it grows, LFG's deficit goes back to zero in the end",
        all(end < 1 for end in ends.values()),
        f"at t = {figure['fair-ucb later'].x[-1]:,}: "
        + ", ".join(f"{end:,.1f} ({name})" for name, end in ends.items()),
    )


def settled_from(instance: Instance) -> int:
    """Return the first round t at which the quotas promise enough pulls to all arms but the best.

    ``8 ln t / gap^2`` pulls are enough. The gap of an arm is the best mean minus the arm's own
    mean.
    """

    def missing(t: float) -> bool:
        return any(
            float(quota) * t < 8 * log(t) / gap**2
            for quota, gap in zip(instance.quotas, instance.gaps, strict=True)
            if gap > 0
        )

    low, high = 3, 1 << 60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing(middle) else (low, middle)
    return high


def _below(one: Curve, at: int, other: Curve, where: int) -> bool:
    """Tell whether a point of one curve is below a point of another, or not clearly above it."""
    noise = _SURE * hypot(one.se[at], other.se[where])
    return one.mean[at] <= other.mean[where] + noise + 1e-9


def _falls(curve: Curve) -> bool | None:
    """Tell whether a curve falls from beginning to end; None if the noise hides it."""
    last = len(curve.x) - 1
    if not all(_below(curve, at + 1, curve, at) for at in range(last)):
        return False
    if not _below(curve, last, curve, 0):
        return False
    return None if _below(curve, 0, curve, last) else True


def _negative(curve: Curve) -> Curve:
    return Curve(curve.x, [-mean for mean in curve.mean], curve.se, curve.runs)


def _bounded(claim: str, curve: Curve, bound: Curve) -> tuple[str, bool, str]:
    agrees = all(_below(curve, at, bound, at) for at in range(len(curve.x)))
    return claim, agrees, f"{curve.mean[-1]:,.0f} against {bound.mean[-1]:,.0f} at the end"


def _end(curve: Curve) -> Curve:
    return Curve(curve.x[-1:], curve.mean[-1:], curve.se[-1:], curve.runs, curve.worst)


def _comparable(one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return high <= _COMPARABLE * max(1.0, low)
