"""The pools' part of `/metrics`, in the text format of Prometheus and in OpenMetrics.

Written here and not by the client library, which takes ten times as long: with thousands of pools
that time would be the loop's. A pool's lines are kept until the pool changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Final

import numpy as np

from fair_allocator.core.regret import r_regret, regret
from fair_allocator.observe.figures import Figures
from fair_allocator.observe.names import ARM_METRICS, POOL_METRICS, TRUE_METRICS, Metric
from fair_allocator.observe.selection import Selection
from fair_allocator.observe.view import Key

Truth = Mapping[str, Mapping[str, float]]
"""The arms' true means by pool, where they are known."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How many arms and pools have series of their own."""

    arms_per_pool: int = 100
    arms: int = 5_000
    pools: int = 5_000


def label_value(name: str) -> str:
    """Escape a name for a label; what UTF-8 cannot say becomes a replacement character."""
    text = name.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pool_labels(key: Key, by_partition: bool) -> str:
    """Return the labels that tell a pool from all others."""
    partition, name = key
    return f'pool="{label_value(name)}"' + (f',partition="{partition}"' if by_partition else "")


class PoolText:
    """The lines of one pool, one text for each metric.

    With `by_partition` they say which partition it is on, for the name may be on others, too.
    """

    __slots__ = ("_arm_labels", "_labels", "arm_lines", "arms", "figures", "lines", "selection")

    def __init__(self, key: Key, by_partition: bool, limit: int) -> None:
        self._labels = pool_labels(key, by_partition)
        self._arm_labels: dict[str, str] = {}
        self.figures: Figures | None = None
        self.selection: Selection[int] = Selection(limit)
        self.arms: list[str] = []
        self.lines: Sequence[str] = ()
        self.arm_lines: Sequence[str] = ()

    def write(self, figures: Figures, limit: int) -> None:
        """Bring the lines up to date, with at most `limit` arms."""
        if self.figures is figures and self.selection.limit == limit:
            return
        before, self.figures = self.figures, figures
        if before is None or before.of.terms.names is not figures.of.terms.names:
            self.selection.chosen.clear()  # they are places, and may be other arms now
            self._arm_labels.clear()
        self.selection.limit = limit
        arms = self._select(figures)
        self.lines = self._pool_lines(figures, figures.size - len(arms))
        self.arm_lines = self._write_arms(figures, arms)

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

    def _pool_lines(self, figures: Figures, hidden: int) -> list[str]:
        of, labels = figures.of, self._labels
        at = f"{{{labels}}} "
        return [
            f"fair_allocator_fairness_violation_max{at}{figures.worst}\n",
            f"fair_allocator_fairness_violation_peak{at}{figures.peak}\n",
            f"fair_allocator_violated_epochs_total{at}{of.violated_epochs}\n",
            ""
            if of.terms.bound is None
            else f"fair_allocator_fairness_tolerance{at}{of.terms.bound}\n",
            f"fair_allocator_arms_in_violation{at}{figures.broken}\n",
            f'fair_allocator_guarantee_info{{{labels},rule="{of.terms.rule}"}} 1\n',
            _by_reason("pool_assignments_total", labels, figures.forced, figures.pulls),
            f"fair_allocator_pool_rewards_total{at}{figures.rewards}\n",
            f"fair_allocator_pool_reward_sum_total{at}{figures.earned!r}\n",
            f"fair_allocator_regret_estimate{at}{figures.regret:.9g}\n",
            f"fair_allocator_r_regret_estimate{at}{figures.r_regret:.9g}\n",
            f"fair_allocator_r_regret_bound{at}{figures.r_regret_bound:.9g}\n",
            f"fair_allocator_pending_rewards{at}{of.open}\n",
            f"fair_allocator_arms{at}{figures.size}\n",
            f"fair_allocator_arms_hidden{at}{hidden}\n",
        ]

    def _write_arms(self, figures: Figures, arms: Sequence[int]) -> list[str]:
        of = figures.of
        names, labels = of.terms.names, self._arm_labels
        columns: list[list[str]] = [[] for _ in ARM_METRICS]
        violation, quota, share, assignments, rewards, sums, means = columns
        short = figures.short
        for arm in arms:
            name = names[arm]
            inner = labels.get(name)
            if inner is None:
                inner = labels[name] = f'{self._labels},arm="{label_value(name)}"'
            at, forced = f"{{{inner}}} ", of.forced[arm]
            violation.append(f"fair_allocator_fairness_violation{at}{short[arm]}\n")
            quota.append(f"fair_allocator_quota_ratio{at}{figures.quota(arm)!r}\n")
            share.append(f"fair_allocator_share_ratio{at}{figures.share(arm)!r}\n")
            assignments.append(_by_reason("assignments_total", inner, forced, of.pulls[arm]))
            rewards.append(f"fair_allocator_rewards_total{at}{of.observed[arm]}\n")
            sums.append(f"fair_allocator_reward_sum_total{at}{of.total[arm]!r}\n")
            mean = figures.mean(arm)
            if mean is not None:
                means.append(f"fair_allocator_mean_reward_estimate{at}{mean!r}\n")
        return ["".join(column) for column in columns]


def _by_reason(metric: str, labels: str, forced: int, pulls: int) -> str:
    return (
        f'fair_allocator_{metric}{{{labels},reason="fairness"}} {forced}\n'
        f'fair_allocator_{metric}{{{labels},reason="learner"}} {pulls - forced}\n'
    )


class PoolsText:
    """The lines of all pools."""

    def __init__(self, caps: Caps, truth: Truth | None = None) -> None:
        self._caps = caps
        self._truth = truth or {}
        self._texts: dict[Key, PoolText] = {}
        self._pools: Selection[Key] = Selection(caps.pools)

    def write(
        self, figures: Mapping[Key, Figures], *, by_partition: bool, openmetrics: bool
    ) -> tuple[str, int]:
        """Return the text, and how many pools it leaves out."""
        shown = self._select(figures)
        texts = {}
        left = self._caps.arms
        for key in shown:
            text = self._texts.get(key) or PoolText(key, by_partition, 0)
            texts[key] = text
            limit = min(self._caps.arms_per_pool, left)
            text.write(figures[key], limit)
            left -= min(limit, figures[key].size)
        self._texts = texts
        parts: list[str] = []
        ordered = list(texts.values())
        for metrics, column in (
            (POOL_METRICS, attrgetter("lines")),
            (ARM_METRICS, attrgetter("arm_lines")),
        ):
            rows = list(map(column, ordered))
            for place, metric in enumerate(metrics):
                parts.append(header(metric, openmetrics=openmetrics))
                parts += [row[place] for row in rows]
        if self._truth:
            parts += self._true_lines(figures, by_partition, openmetrics)
        return "".join(parts), len(figures) - len(shown)

    def _true_lines(
        self, figures: Mapping[Key, Figures], by_partition: bool, openmetrics: bool
    ) -> list[str]:
        """Write what is known of the truth; only a demo knows any, and has few arms."""
        columns: list[list[str]] = [[header(m, openmetrics=openmetrics)] for m in TRUE_METRICS]
        means, lost, r_lost = columns
        for key, each in figures.items():
            of, pool = each.of, pool_labels(key, by_partition)
            terms, known = of.terms, self._truth.get(of.name)
            if known is None or not known.keys() >= set(terms.names):
                continue
            truth = [known[arm] for arm in terms.names]
            entitled = [
                Fraction(base + slope * of.rounds, unit)
                for base, slope, unit in zip(terms.base, terms.slope, terms.unit, strict=True)
            ]
            means += (
                f'fair_allocator_mean_reward_true{{{pool},arm="{label_value(arm)}"}} {mean!r}\n'
                for arm, mean in zip(terms.names, truth, strict=True)
            )
            lost.append(f"fair_allocator_regret_true{{{pool}}} {regret(truth, of.pulls):.9g}\n")
            fair = r_regret(truth, of.pulls, entitled, terms.tolerance)
            r_lost.append(f"fair_allocator_r_regret_true{{{pool}}} {fair:.9g}\n")
        return ["".join(column) for column in columns if len(column) > 1]

    def _select(self, figures: Mapping[Key, Figures]) -> list[Key]:
        broken = [k for k, each in figures.items() if each.broken or each.of.violated_epochs]
        return self._pools.update(
            figures, broken, lambda: sorted(figures, key=lambda key: -figures[key].of.rounds)
        )


_COUNTER_SUFFIX: Final = "_total"


def header(metric: Metric, *, openmetrics: bool) -> str:
    """Return what precedes the samples of a metric."""
    name = metric.full_name
    if openmetrics:
        name = name.removesuffix(_COUNTER_SUFFIX)
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
