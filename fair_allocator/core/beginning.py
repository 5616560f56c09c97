"""The settings with which a pool begins. Pools of one template share them, to read them once."""

from typing import Any

from fair_allocator.core.arms import Arms
from fair_allocator.core.caps import parse_caps
from fair_allocator.core.fairness import Fairness
from fair_allocator.core.numbers import parse_whole
from fair_allocator.core.presence import parse_max_open
from fair_allocator.core.quotas import parse_shares, parse_tolerance
from fair_allocator.core.wish import parse_bank, parse_wish


class Beginning:
    """The checked settings of new pools, and the fairness that is in force from the first round on.

    It never changes. Each new pool gets its own columns (`Arms`) and its own `Fairness` from it.
    """

    __slots__ = ("arms", "caps", "fairness", "max_open", "remember", "seed")

    def __init__(
        self,
        arms: Any,
        tolerance: Any,
        rule: Any,
        seed: Any,
        remember: Any,
        requests: Any,
        bank: Any,
        caps: Any,
        max_open: Any,
    ) -> None:
        quotas = parse_shares(arms)
        self.caps = parse_caps(caps, quotas)
        self.max_open = parse_max_open(max_open, quotas)
        self.seed = parse_whole(seed, "seed")
        self.remember = parse_whole(remember, "remember", least=0)
        self.arms = Arms()
        self.arms.join(quotas, 1)
        wanted = list(quotas.values())
        wish = parse_wish(wanted, parse_tolerance(tolerance), rule, requests, parse_bank(bank))
        self.fairness = Fairness.begun(self.arms, wanted, wish)
