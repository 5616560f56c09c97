"""Write the pools' part of `/metrics`, in the text format of Prometheus or in OpenMetrics.

The Prometheus client library would take many times as long. With thousands of pools, the service's
loop would lose that time.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Final

from fair_allocator.config import MetricsSection
from fair_allocator.core.regret import r_regret, regret
from fair_allocator.observe.block import POOLS, Block, label_value, pool_labels
from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.metrics import ARM_METRICS, POOL_METRICS, TRUE_METRICS, Metric
from fair_allocator.observe.selection import Selection
from fair_allocator.observe.view import Key

Truth = Mapping[str, Mapping[str, float]]
"""The arms' true means by pool, for pools where they are known."""


class PoolsText:
    """The lines of all pools."""

    def __init__(self, caps: MetricsSection, truth: Truth | None = None) -> None:
        self._caps = caps
        self._truth = truth or {}
        self._blocks: list[Block] = []
        self._pools: Selection[Key] = Selection(caps.max_pools)

    def write(
        self, figures: Mapping[Key, PoolFigures], *, by_partition: bool, openmetrics: bool
    ) -> tuple[str, int]:
        """Return the text, and how many pools have no lines in it."""
        limits = {}
        left = self._caps.max_arms
        for key in self._select(figures):
            limits[key] = min(self._caps.max_arms_per_pool, left)
            left -= min(limits[key], figures[key].size)
        self._divide(limits, by_partition)
        for block in self._blocks:
            block.write(figures, limits)
        parts: list[str] = []
        for place, metric in enumerate((*POOL_METRICS, *ARM_METRICS)):
            parts.append(header(metric, openmetrics=openmetrics))
            parts += [block.texts[place] for block in self._blocks]
        if self._truth:
            parts += self._true_lines(figures, by_partition, openmetrics)
        return "".join(parts), len(figures) - len(limits)

    def _divide(self, shown: Collection[Key], by_partition: bool) -> None:
        """Divide these pools into blocks.

        Known pools keep their blocks, new pools fill free places.
        """
        new = dict.fromkeys(shown)
        for block in self._blocks:
            for key in list(block.members):
                if key in new:
                    del new[key]
                else:
                    block.remove(key)
        roomy = [block for block in self._blocks if len(block.members) < POOLS]
        for key in new:
            if not roomy:
                roomy = [Block()]
                self._blocks += roomy
            roomy[-1].add(key, pool_labels(key, by_partition))
            if len(roomy[-1].members) == POOLS:
                roomy.pop()
        self._blocks = [block for block in self._blocks if block.members]

    def _true_lines(
        self, figures: Mapping[Key, PoolFigures], by_partition: bool, openmetrics: bool
    ) -> list[str]:
        """Return the lines about true means. Only a demo knows these, and it has few arms."""
        columns: list[list[str]] = [[header(m, openmetrics=openmetrics)] for m in TRUE_METRICS]
        means, lost, r_lost = columns
        for key, each in figures.items():
            of, pool = each.of, pool_labels(key, by_partition)
            terms, known = of.terms, self._truth.get(of.name)
            if known is None or not known.keys() >= set(terms.names):
                continue
            truth = [known[arm] for arm in terms.names]
            entitled = [
                Fraction(base + slope * of.own(arm), unit)
                for arm, (base, slope, unit) in enumerate(
                    zip(of.base, terms.slope, terms.unit, strict=True)
                )
            ]
            means += (
                f'fair_allocator_mean_reward_true{{{pool},arm="{label_value(arm)}"}} {mean!r}\n'
                for arm, mean in zip(terms.names, truth, strict=True)
            )
            lost.append(f"fair_allocator_regret_true{{{pool}}} {regret(truth, of.pulls):.9g}\n")
            fair = r_regret(truth, of.pulls, entitled, terms.tolerance)
            r_lost.append(f"fair_allocator_r_regret_true{{{pool}}} {fair:.9g}\n")
        return ["".join(column) for column in columns if len(column) > 1]

    def _select(self, figures: Mapping[Key, PoolFigures]) -> list[Key]:
        broken = [k for k, each in figures.items() if each.broken or each.of.violated_epochs]
        return self._pools.update(
            figures, broken, lambda: sorted(figures, key=lambda key: -figures[key].of.rounds)
        )


_COUNTER_SUFFIX: Final = "_total"


def header(metric: Metric, *, openmetrics: bool) -> str:
    """Return the header lines of a metric, which come before its samples."""
    name = metric.full_name
    if openmetrics:
        name = name.removesuffix(_COUNTER_SUFFIX)
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
