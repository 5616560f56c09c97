"""Fair allocation with learning: every arm gets its share of the rounds, at every round."""

from fair_allocator.core.errors import (
    FairAllocatorError,
    InvalidPool,
    InvalidReward,
    InvalidState,
)
from fair_allocator.core.fairness import Epoch, Guarantee
from fair_allocator.core.learners import Learner
from fair_allocator.core.pool import Change, Pool
from fair_allocator.core.requests import Assignment, RewardOutcome

__all__ = [
    "Assignment",
    "Change",
    "Epoch",
    "FairAllocatorError",
    "Guarantee",
    "InvalidPool",
    "InvalidReward",
    "InvalidState",
    "Learner",
    "Pool",
    "RewardOutcome",
]

__version__ = "0.1.0"
