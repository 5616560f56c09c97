"""What was seen, in a few sentences."""

from collections.abc import Iterator, Sequence

from fair_allocator.audit import Report
from fair_allocator.demo.board import Row
from fair_allocator.demo.play import Play


def told(play: Play, report: Report) -> Iterator[str]:
    """Yield the paragraphs of the end, the verdict first."""
    yield _verdict(report)
    if play.ours.rounds:
        yield _starved(play)
        yield from _newcomers(play)
        yield _cost(play)


def _verdict(report: Report) -> str:
    rounds = sum(row.rounds for row in report.pools)
    checked = f"The audit read all {report.records:,} records of the assignments topic"
    if report.first is not None:
        return f"{checked} and found {report.offences:,} offences, the first: {report.first}"
    worst = max((row.worst or 0 for row in report.pools), default=0)
    return (
        f"{checked}: every guarantee was kept at every one of {rounds:,} rounds. "
        f"The worst shortfall was {worst}."
    )


def _starved(play: Play) -> str:
    words, board = play.world.words, play.plain
    short = board.short()
    if not short:
        return f"Plain UCB1 left no {words.arm} short so far."
    starved = [row for row in short if row.share(board.rounds) < float(row.arm.quota) / 2]
    worst = short[0]
    tenth, crowded = board.busiest()
    ours = play.ours.busiest()[1]
    who = f"the busiest {words.arm}" if tenth == 1 else f"the busiest {tenth} {words.arm}s"
    return (
        f"Plain UCB1, on the same {words.request}s, would have left {len(short)} of "
        f"{len(board.rows)} {words.arm}s short of their share, {len(starved)} of them with less "
        f"than half of it. {worst.arm.name} would be {worst.shortfall(board.rounds):,} "
        f"{words.request}s short: {worst.share(board.rounds):.1%} instead of the promised "
        f"{float(worst.arm.quota):.1%}. A tenth of the {words.arm}s ({who}) would get "
        f"{crowded:.0%} of all {words.request}s; with quotas, {ours:.0%}."
    )


def _newcomers(play: Play) -> Iterator[str]:
    words, ours, plain = play.world.words, play.ours, play.plain
    rows = [row for row in ours.rows.values() if row.arm.newcomer]
    if not rows or ours.rounds == rows[0].joined:
        return
    names = _listed([row.arm.name for row in rows])
    shares = [row.share(ours.rounds) for row in rows]
    beside = [plain.rows[row.arm.name] for row in rows]
    yield (
        f"{names} {words.joined}, promised {_range([float(row.arm.quota) for row in rows])} of "
        f"the {words.request}s from then on; they got {_range(shares)}. "
        f"Under plain UCB1: {_range([row.share(plain.rounds) for row in beside])}"
        f"{_how_many_short(beside, plain.rounds)}."
    )


def _how_many_short(rows: Sequence[Row], rounds: int) -> str:
    short = sum(row.shortfall(rounds) > 0 for row in rows)
    return f", {short} of {len(rows)} short" if short and len(rows) > 1 else ""


def _cost(play: Play) -> str:
    words, ours, plain = play.world.words, play.ours, play.plain
    lost = 1 - ours.worth / plain.worth
    best = ours.worth + ours.moments[-1].regret - ours.moments[-1].price
    return (
        f"What fairness cost: {ours.worth:,.0f} {words.reward} to be expected, with plain UCB1 "
        f"{plain.worth:,.0f}, so {lost:.1%} fewer. Somebody who knew every {words.arm} from the "
        f"start and kept the same promises would get {best:,.0f}."
    )


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.1%}", f"{max(shares):.1%}"
    return low if low == high else f"{low} to {high}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
