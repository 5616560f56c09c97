"""Tell the outcome of the demo in a few sentences."""

from collections.abc import Iterator, Sequence

from fair_allocator.audit import Report
from fair_allocator.demo.board import Row
from fair_allocator.demo.play import Play


def told(play: Play, report: Report) -> Iterator[str]:
    """Yield the final paragraphs, beginning with the verdict."""
    yield _verdict(report)
    if play.ours.rounds:
        yield _starved(play)
        yield _gaps(play)
        yield from _newcomers(play)
        yield _cost(play)


def _verdict(report: Report) -> str:
    checked = f"The audit read all {report.records:,} records of the assignments topic"
    if report.first is not None:
        return (
            f"Every guarantee kept: NO. {checked} and found {report.offences:,} offences, the "
            f"first: {report.first}"
        )
    rounds = sum(row.rounds for row in report.pools)
    worst = max((row.worst or 0 for row in report.pools), default=0)
    return (
        f"Every guarantee kept: yes. {checked}, and the worst shortfall at any of {rounds:,} "
        f"rounds was {worst}."
    )


def _starved(play: Play) -> str:
    words, board, name = play.world.words, play.rival, play.world.rival
    short = board.short()
    if not short:
        return f"{_first(name)} left no {words.arm} short in the end, {board.peak:,} at worst."
    starved = sum(row.share() < float(row.arm.quota) / 2 for row in short)
    count = "all" if starved == len(short) else str(starved)
    half = f", {count} of them with less than half of it" if starved else ""
    worst = short[0]
    (tenth, ours), (_, crowded) = play.ours.busiest(), board.busiest()
    busiest = "the busiest one" if tenth == 1 else f"the busiest {tenth}"
    return (
        f"{_first(name)}, on the same {words.request}s, would have left {len(short)} of "
        f"{len(board.rows)} {words.arm}s short of their share{half}. {worst.arm.name} would be "
        f"{worst.shortfall():,} {words.request}s short: "
        f"{worst.share():.1%} instead of the promised {float(worst.arm.quota):.1%}. "
        f"A tenth of the {words.arm}s ({busiest}) would get {crowded:.0%} of all "
        f"{words.request}s; with quotas, {ours:.0%}."
    )


def _gaps(play: Play) -> str:
    words = play.world.words
    return (
        f"The longest wait of any {words.arm}: {play.ours.gap:,} picks in {words.request}s that "
        f"the {words.arm} could take; with {play.world.rival} {play.rival.gap:,}."
    )


def _newcomers(play: Play) -> Iterator[str]:
    words, ours, rival = play.world.words, play.ours, play.rival
    rows = [row for row in ours.rows.values() if row.arm.newcomer]
    if not rows or ours.rounds == rows[0].joined:
        return
    names = _listed([row.arm.name for row in rows])
    shares = [row.share() for row in rows]
    beside = [rival.rows[row.arm.name] for row in rows]
    yield (
        f"{names} {words.joined}, promised {_range([float(row.arm.quota) for row in rows])} of "
        f"the {words.request}s from then on, and got {_range(shares)}. "
        f"Under {play.world.rival}: {_range([row.share() for row in beside])}"
        f"{_how_many_short(beside)}."
    )


def _how_many_short(rows: Sequence[Row]) -> str:
    short = sum(row.shortfall() > 0 for row in rows)
    return f", {short} of {len(rows)} short" if short and len(rows) > 1 else ""


def _cost(play: Play) -> str:
    words, ours, rival = play.world.words, play.ours, play.rival
    if play.world.real:
        return (
            f"What it brought, on average by pick: {ours.worth / ours.given:.3f} {words.reward}; "
            f"with {play.world.rival} {rival.worth / rival.given:.3f}."
        )
    lost = 1 - ours.worth / rival.worth
    difference = f"{abs(lost):.1%} {'fewer' if lost > 0 else 'more'}"
    best = ours.worth + ours.moments[-1].regret - ours.moments[-1].price
    return (
        f"What fairness cost: about {ours.worth:,.0f} {words.reward} instead of {rival.worth:,.0f} "
        f"with {play.world.rival}, {difference}. With every {words.arm}'s {words.skill} known "
        f"from the start, the same promises would have allowed {best:,.0f}."
    )


def _first(name: str) -> str:
    """Return a name with a capital letter, for the beginning of a sentence."""
    return name[0].upper() + name[1:]


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.1%}", f"{max(shares):.1%}"
    return low if low == high else f"{low} to {high}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
