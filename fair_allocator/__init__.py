"""Fair allocation with learning: at any time, every arm has had its share of the requests."""

from fair_allocator.core.all_but import AllBut
from fair_allocator.core.errors import (
    FairAllocatorError,
    InvalidPool,
    InvalidRequest,
    InvalidReward,
    InvalidState,
    LearnerWarning,
    NobodyFree,
    NobodyLeft,
)
from fair_allocator.core.guarantee import Change, Epoch, Guarantee
from fair_allocator.core.learners import Learner, find_more
from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment, RewardOutcome
from fair_allocator.log.parts import part_of
from fair_allocator.plugins import installed_learners

__all__ = [
    "AllBut",
    "Assignment",
    "Change",
    "Epoch",
    "FairAllocatorError",
    "Guarantee",
    "InvalidPool",
    "InvalidRequest",
    "InvalidReward",
    "InvalidState",
    "Learner",
    "LearnerWarning",
    "NobodyFree",
    "NobodyLeft",
    "part_of",
    "Pool",
    "RewardOutcome",
]

find_more(installed_learners)

__version__ = "0.2.0"
