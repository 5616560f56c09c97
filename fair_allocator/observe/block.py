"""The lines of some pools in `/metrics`, one text for each metric.

Thousands of pools change between two scrapes, and the time it takes to write them is the loop's.
So what stays as it is while an epoch lasts is written once into templates, and a scrape only fills
in the numbers, those of many pools at a time. A block in which nothing changed is kept as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fair_allocator.observe.figures import Figures
from fair_allocator.observe.names import PREFIX
from fair_allocator.observe.selection import Selection
from fair_allocator.observe.view import Key

POOLS: Final = 64
"""In a block: enough to share the work among, few enough for a change to rewrite little."""


def label_value(name: str) -> str:
    """Escape a name for a label; what UTF-8 cannot say becomes a replacement character."""
    text = name.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pool_labels(key: Key, by_partition: bool) -> str:
    """Return the labels that tell a pool from all others."""
    partition, name = key
    return f'pool="{label_value(name)}"' + (f',partition="{partition}"' if by_partition else "")


_Current = tuple[Figures, list[int]]
"""How a pool is now, and which of its arms have series."""


class Member:
    """A pool of a block: its labels, its figures, and which of its arms have series."""

    __slots__ = ("arms", "figures", "labels", "selection")

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.figures: Figures | None = None
        self.selection: Selection[int] = Selection(0)
        self.arms: list[int] = []

    def update(self, figures: Figures, limit: int) -> tuple[bool, bool]:
        """Take in how the pool is, with at most `limit` arms.

        Returns whether its numbers changed, and whether its lines did.
        """
        before, selection = self.figures, self.selection
        same = before is not None and before.of.terms is figures.of.terms
        if selection.limit != limit:
            selection.limit, same = limit, False
        elif before is figures:
            return False, False
        self.figures = figures
        if same and not figures.broken:
            return True, False  # a choice stays until somebody urgent needs its place
        if before is None or before.of.terms.names is not figures.of.terms.names:
            selection.chosen.clear()  # they are places, and may be other arms now
        arms = self._select(figures)
        same = same and arms == self.arms
        self.arms = arms
        return True, not same

    def _select(self, figures: Figures) -> list[int]:
        of, bound = figures.of, figures.of.terms.bound
        urgent: list[int] = []
        if figures.broken and bound is not None:
            urgent = np.flatnonzero(figures.short > bound).tolist()
        pulls = of.pulls
        return self.selection.update(
            range(figures.size),
            urgent,
            lambda: sorted(range(figures.size), key=pulls.__getitem__, reverse=True),
        )


class Block:
    """At most `POOLS` pools; `texts` has their lines, by metrics of pools and then of arms."""

    def __init__(self) -> None:
        self.members: dict[Key, Member] = {}
        self.texts: Sequence[str] = ()
        self._templates: Sequence[str] = ()
        self._mean_lines: Sequence[str] = ()

    def add(self, key: Key, labels: str) -> None:
        """Take in a pool."""
        self.members[key] = Member(labels)
        self._templates = ()

    def remove(self, key: Key) -> None:
        """Forget a pool."""
        del self.members[key]
        self._templates = ()

    def write(self, figures: Mapping[Key, Figures], limits: Mapping[Key, int]) -> None:
        """Bring the lines up to date; `limits` says how many arms of each pool have series."""
        changed = not self._templates
        for key, member in self.members.items():
            numbers, lines = member.update(figures[key], limits[key])
            changed = changed or numbers
            if lines:
                self._templates = ()
        if not changed:
            return
        current = [(figures[key], member.arms) for key, member in self.members.items()]
        if not self._templates:
            labels = (member.labels for member in self.members.values())
            self._write_templates([_Lines(*each) for each in zip(labels, current, strict=True)])
        columns = _pool_columns([each for each, _ in current]) + _arm_columns(current)
        texts = [t % tuple(c) for t, c in zip(self._templates, columns, strict=True)]
        means = (each.mean(arm) for each, arms in current for arm in arms)
        found = zip(self._mean_lines, means, strict=True)
        texts.append("".join([f"{line}{mean!r}\n" for line, mean in found if mean is not None]))
        self.texts = texts

    def _write_templates(self, lines: Sequence["_Lines"]) -> None:
        self._mean_lines = [line for each in lines for line in each.means]
        pools = zip(*(each.of_pool for each in lines), strict=True)
        arms = zip(*(each.of_arms for each in lines), strict=True)
        self._templates = ["".join(column) for column in (*pools, *arms)]


class _Lines:
    """The lines of a pool with places for its numbers; of means, which may be missing, the start.

    What an epoch leaves as it is has no place, but is there.
    """

    def __init__(self, raw_labels: str, current: "_Current") -> None:
        figures, arms = current
        terms, labels = figures.of.terms, raw_labels.replace("%", "%%")
        at = f"{{{labels}}} "
        bound = "" if terms.bound is None else f"{PREFIX}fairness_tolerance{at}{terms.bound}\n"
        self.of_pool = [
            f"{PREFIX}fairness_violation_max{at}%d\n",
            f"{PREFIX}fairness_violation_peak{at}%d\n",
            f"{PREFIX}violated_epochs_total{at}%d\n",
            bound,
            f"{PREFIX}arms_in_violation{at}%d\n",
            f'{PREFIX}guarantee_info{{{labels},rule="{terms.rule}"}} 1\n',
            _by_reason("pool_assignments_total", labels),
            f"{PREFIX}pool_rewards_total{at}%d\n",
            f"{PREFIX}pool_reward_sum_total{at}%r\n",
            f"{PREFIX}regret_estimate{at}%.9g\n",
            f"{PREFIX}r_regret_estimate{at}%.9g\n",
            f"{PREFIX}r_regret_bound{at}%.9g\n",
            f"{PREFIX}pending_rewards{at}%d\n",
            f"{PREFIX}arms{at}{figures.size}\n",
            f"{PREFIX}arms_hidden{at}{figures.size - len(arms)}\n",
        ]
        inner = [f'{raw_labels},arm="{label_value(terms.names[arm])}"' for arm in arms]
        quotas = [repr(figures.quota(arm)) for arm in arms]
        self.means = [f"{PREFIX}mean_reward_estimate{{{each}}} " for each in inner]
        inner = [each.replace("%", "%%") for each in inner]
        self.of_arms = [
            "".join([f"{PREFIX}fairness_violation{{{each}}} %d\n" for each in inner]),
            "".join(
                f"{PREFIX}quota_ratio{{{each}}} {quota}\n"
                for each, quota in zip(inner, quotas, strict=True)
            ),
            "".join([f"{PREFIX}share_ratio{{{each}}} %r\n" for each in inner]),
            "".join([_by_reason("assignments_total", each) for each in inner]),
            "".join([f"{PREFIX}rewards_total{{{each}}} %d\n" for each in inner]),
            "".join([f"{PREFIX}reward_sum_total{{{each}}} %r\n" for each in inner]),
        ]


def _by_reason(metric: str, labels: str) -> str:
    return (
        f'{PREFIX}{metric}{{{labels},reason="fairness"}} %d\n'
        f'{PREFIX}{metric}{{{labels},reason="learner"}} %d\n'
    )


def _pool_columns(figures: Sequence[Figures]) -> list[Sequence[float]]:
    """Return the numbers of `_Lines.of_pool`."""
    views = [each.of for each in figures]
    return [
        [each.worst for each in figures],
        [each.peak for each in figures],
        [of.violated_epochs for of in views],
        (),
        [each.broken for each in figures],
        (),
        [number for each in figures for number in (each.forced, each.pulls - each.forced)],
        [each.rewards for each in figures],
        [each.earned for each in figures],
        [each.regret for each in figures],
        [each.r_regret for each in figures],
        [each.r_regret_bound for each in figures],
        [of.open for of in views],
        (),
        (),
    ]


def _arm_columns(current: Sequence[_Current]) -> list[Sequence[float]]:
    """Return the numbers of `_Lines.of_arms`."""
    short: list[float] = []
    share: list[float] = []
    reasons: list[float] = []
    rewards: list[float] = []
    sums: list[float] = []
    for figures, arms in current:
        if arms:
            of = figures.of
            short += figures.short[arms].tolist()
            share += map(figures.share, arms)
            for arm in arms:
                forced = of.forced[arm]
                reasons += (forced, of.pulls[arm] - forced)
            rewards += [of.observed[arm] for arm in arms]
            sums += [of.total[arm] for arm in arms]
    return [short, (), share, reasons, rewards, sums]
