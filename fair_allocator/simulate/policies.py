"""An instance, and the policies that are compared on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from fair_allocator.core.guarantee import resolve_rule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Instance:
    """Arms with Bernoulli rewards of known means, and their quotas."""

    means: tuple[float, ...]
    quotas: tuple[Fraction, ...]

    @cached_property
    def gaps(self) -> Floats:
        """How far each arm's mean is below the best mean, which is the expected cost of a pull."""
        means = np.array(self.means)
        return np.asarray(means.max() - means)

    def floors(self, rounds: Sequence[int]) -> Ints:
        """Return ``floor(quota * t)`` exactly, a row for each t."""
        return np.array([[t * r.numerator // r.denominator for r in self.quotas] for t in rounds])


@dataclass(frozen=True)
class Policy:
    """A learner with a serving rule and a tolerance.

    Attributes
    ----------
    name
        The name of its curve.
    learner
        "ucb1", "lfg" or "t-fair-ucb".
    rule
        The rule of a pool: "auto", "max-deficit", "earliest-deadline" or "none".
    tolerance
        The tolerance in whole pulls.
    eta
        The weight of rewards against queues, for LFG.
    """

    name: str
    learner: str = "ucb1"
    rule: str = "none"
    tolerance: int = 0
    eta: float = 100.0

    def rule_on(self, instance: Instance) -> str:
        """Return the rule in force; raise if the rule cannot guarantee these quotas."""
        return resolve_rule(self.rule, instance.quotas)


def fair_ucb(tolerance: int = 0, name: str = "fair-ucb") -> Policy:
    """Return the paper's Fair-UCB."""
    return Policy(name, "ucb1", "auto", tolerance)


def lfg(eta: int) -> Policy:
    """Return the baseline LFG with this eta."""
    return Policy(f"lfg eta={eta}", "lfg", "none", eta=float(eta))


UCB1: Final = Policy("ucb1")
T_FAIR_UCB: Final = Policy("t-fair-ucb", "t-fair-ucb")
ETAS: Final = (1, 10, 100, 1000)
"""Values of eta to try, because the paper does not say which one it used."""

COST: Final = Instance(
    means=(0.8, *(round(0.8 - 0.01 * i, 2) for i in range(2, 11))),
    quotas=(Fraction(1, 20),) * 10,
)
"""Instance 1 of the paper: ten arms close to each other."""

GUARANTEE: Final = Instance(
    means=(0.7, 0.5, 0.4), quotas=(Fraction(1, 5), Fraction(3, 10), Fraction(1, 4))
)
"""Instance 2 of the paper: three arms far apart."""
