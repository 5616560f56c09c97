"""How the tests of learners play, start and judge them."""

from collections.abc import Mapping
from math import sqrt

from fair_allocator import Assignment, Learner, Pool
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.quotas import Number

FREE: dict[str, Number] = {"a": 0, "b": 0, "c": 0}

DEVIATIONS = 4
"""How many standard errors a frequency may be off; the seeds are fixed, so it is or it is not."""


def play(pool: Pool, rewards: Mapping[str, float] | float, rounds: int = 1) -> list[Assignment]:
    """Play rounds whose rewards come at once: one number for all arms, or one for each."""
    played = []
    for _ in range(rounds):
        assignment = pool.assign(f"r{pool.rounds + 1}")
        value = rewards if isinstance(rewards, float) else rewards[assignment.arm]
        pool.reward(assignment.request_id, value)
        played.append(assignment)
    return played


def started(learner: Learner, *rewards: list[float], pending: tuple[int, ...] = ()) -> Learner:
    """Start a learner on arms with these rewards observed and these many pending."""
    arms = Arms()
    arms.join((f"arm-{arm}" for arm in range(len(rewards))), 1)
    for arm, observed in enumerate(rewards):
        arms.observed[arm] = len(observed)
        arms.total[arm] = sum(observed)
        arms.pending[arm] = pending[arm] if pending else 0
        arms.pulls[arm] = arms.observed[arm] + arms.pending[arm]
    learner.begin(arms, Draws(7, "test"))
    return learner


def frequencies_agree(learner: Learner, chances: list[float], rounds: int = 4000) -> None:
    """Check how often a learner that is told nothing chooses each arm."""
    chosen = [learner.choose(round)[0] for round in range(100, 100 + rounds)]
    for arm, chance in enumerate(chances):
        error = sqrt(chance * (1 - chance) / rounds)
        assert abs(chosen.count(arm) / rounds - chance) <= DEVIATIONS * error
