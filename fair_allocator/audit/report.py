"""What an audit found, as plain data and as text."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fair_allocator.audit.chain import ChainRow
from fair_allocator.audit.splits import PartRow, SplitRow, joined


@dataclass(frozen=True, slots=True)
class Offence:
    """A broken guarantee and its place.

    Attributes
    ----------
    partition, offset
        The place of the record. The partition is None if a line of text could not be read.
    pool, round, arm
        What the offence is about. A value is None if it does not apply.
    sentence
        What is wrong.

    Examples
    --------
    >>> print(Offence(2, 1041, "tasks", 311, "bob", "arm 'bob' is not an arm of the pool"))
    assignments 2 @ 1041: pool 'tasks', round 311: arm 'bob' is not an arm of the pool
    """

    partition: int | None
    offset: int
    pool: str | None
    round: int | None
    arm: str | None
    sentence: str

    def __str__(self) -> str:
        topic = "assignments" if self.partition is None else f"assignments {self.partition}"
        pool = "" if self.pool is None else f"pool {self.pool!r}"
        round = "" if self.round is None else f"round {self.round}"
        about = ", ".join(filter(None, (pool, round)))
        return ": ".join(filter(None, (f"{topic} @ {self.offset}", about, self.sentence)))


@dataclass(frozen=True, slots=True)
class PoolRow:
    """What the audit found for a pool.

    Attributes
    ----------
    rounds, forced, learned
        The number of rounds audited, of picks that fairness forced, and of picks by the learner.
    unpromised
        How many rounds had the rule "none". This rule promises nothing, so fairness was not
        checked.
    repeats
        How many answers were published again. They count for no arm.
    waited
        How often a request had to wait, because no arm could take it or the pool was paused.
    uncovered
        How many assignments could not be audited: those before the pool's first complete epoch
        record, in a log whose beginning is gone.
    epochs
        How many epochs were in force over these rounds.
    rule, bound, bank
        What is in force at the end. None if the pool was removed, or no part of it was audited.
    worst, tolerated
        The shortfall that came closest to its bound or exceeded it most, and this bound.
    longest_gap
        The longest wait for a pull of an arm with a quota, in slots of requests that it could take.
    offences
        How many offences were found.
    """

    pool: str
    partition: int
    rounds: int
    forced: int
    learned: int
    unpromised: int
    repeats: int
    waited: int
    uncovered: int
    epochs: int
    rule: str | None
    bound: int | None
    bank: int | None
    worst: int | None
    tolerated: int | None
    longest_gap: int | None
    offences: int


_COLUMNS = (
    "pool",
    "partition",
    "rounds",
    "worst shortfall",
    "tolerated",
    "longest gap",
    "fairness",
    "learner",
    "repeats",
    "waited",
    "epochs",
    "not covered",
    "offences",
)


_SPLIT_COLUMNS = (
    "split pool",
    "parts",
    "rounds",
    "worst shortfall, in any order",
    "tolerated",
    "arm",
)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a log.

    `offences` is the number of offences, and `first` has the first of them. `redelivered` is how
    many of the `records` were copies of earlier ones; copies are not counted. `parts` has the parts
    of split pools, and `splits` is computed from them.
    """

    records: int
    redelivered: int
    offences: int
    first: Offence | None
    window: int
    pools: tuple[PoolRow, ...]
    chains: tuple[ChainRow, ...] = ()
    parts: tuple[PartRow, ...] = ()

    @property
    def splits(self) -> tuple[SplitRow, ...]:
        """The split pools, each with what its parts kept and promised together."""
        return joined(self.parts)

    @property
    def ok(self) -> bool:
        """Whether every guarantee was kept."""
        return self.offences == 0 and not any(row.broken for row in self.splits)

    @classmethod
    def joined(cls, reports: Sequence["Report"]) -> "Report | None":
        """Join the reports on single partitions, in their order.

        Return None if a pool is in several partitions. This is an offence, but separate reports do
        not show at which record. In this case, audit all partitions in one pass.
        """
        pools = tuple(row for report in reports for row in report.pools)
        if len({row.pool for row in pools}) < len(pools):
            return None
        return cls(
            sum(report.records for report in reports),
            sum(report.redelivered for report in reports),
            sum(report.offences for report in reports),
            next((report.first for report in reports if report.first is not None), None),
            reports[0].window,
            pools,
            tuple(row for report in reports for row in report.chains),
            tuple(row for report in reports for row in report.parts),
        )

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        first = None if self.first is None else asdict(self.first) | {"text": str(self.first)}
        content = {"ok": self.ok, **asdict(replace(self, parts=())), "first": first}
        del content["parts"]
        return content | {"splits": [asdict(row) for row in self.splits]}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report: the pools, what was not checked, and the verdict."""
        yield from _table([_COLUMNS, *map(_cells, self.pools)])
        if splits := self.splits:
            yield from _table([_SPLIT_COLUMNS, *map(_split_cells, splits)])
        for row in self.pools:
            if row.unpromised:
                yield (
                    f"pool {row.pool!r}: rule 'none' promises nothing, fairness was not checked in "
                    f"{row.unpromised} rounds"
                )
        if uncovered := sum(row.uncovered for row in self.pools):
            yield (
                f"{uncovered} assignments before the first complete epoch record of their pool are "
                "not covered: the log's beginning is gone"
            )
        if self.redelivered:
            yield f"{self.redelivered} records were delivered again, each the same as before"
        yield from self._chain_lines()
        rounds = sum(row.rounds for row in self.pools)
        yield f"{self.records} records, {rounds} rounds, ids compared over {self.window} answers"
        if self.ok:
            yield "every guarantee was kept at every round"
            return
        for split in splits:
            if split.broken:
                yield str(split)
        if self.first is not None:
            yield str(self.first)
            yield f"{self.offences} offences in all, the first is shown"

    def _chain_lines(self) -> Iterator[str]:
        """Yield what the hash chain covers."""
        chained = sum((row.records or 0) - (row.first or 0) for row in self.chains)
        checkpoints = sum(row.checkpoints for row in self.chains)
        line = f"{chained} records are chained, by {checkpoints} checkpoints"
        if any(row.sealed is not None for row in self.chains):
            sealed = sum(max(0, (row.sealed or 0) - (row.first or 0)) for row in self.chains)
            line += f"; {sealed} of them are sealed"
        yield line
        if uncovered := sum(row.uncovered for row in self.chains):
            yield (
                f"{uncovered} records before the first checkpoint of their partition are not "
                "covered by the chain"
            )


def _cells(row: PoolRow) -> tuple[str, ...]:
    numbers = (
        row.partition,
        row.rounds,
        row.worst,
        row.tolerated,
        row.longest_gap,
        row.forced,
        row.learned,
        row.repeats,
        row.waited,
        row.epochs,
        row.uncovered,
        row.offences,
    )
    return (repr(row.pool), *("-" if number is None else str(number) for number in numbers))


def _split_cells(row: SplitRow) -> tuple[str, ...]:
    promised = "-" if row.tolerated is None else str(row.tolerated)
    found = f"{row.found} of {row.parts}"
    return (repr(row.pool), found, str(row.rounds), str(row.worst), promised, repr(row.arm))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *padded))
