"""The interface between a pool and what learns on top of it.

A learner proposes an arm whenever fairness leaves the round free, and is told of every pull,
its own and the forced ones. It sees the pool's counts in `Arms` and keeps only what is not
already there. It can be wrong, slow or malicious and no arm loses its share.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.requests import Assignment

Plain = Mapping[str, object]
"""Data made of None, bools, numbers, texts, lists and dicts only."""

Choice = tuple[int, float | None]
"""An arm's index and the probability with which it was chosen, None where it has no closed form."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Learner:
    """Base of the learners; `choose` is the one thing a learner must bring.

    A learner of your own is a subclass, handed to `Pool` as an object or registered by name as
    an entry point of the group ``fair_allocator.learners``. Its constructor takes keyword
    parameters, and `parameters` gives them back, so that a stored pool can make it again.

    The rules it lives by:

    - `arms` is read, never written. It is replaced in `begin`.
    - Equal inputs make equal choices. Random numbers come from `draws`, which are functions
      of (seed, pool, round, purpose) and leave no state behind.
    - `choose` changes nothing that `state` would show: a crash between choosing and counting
      must leave no trace.
    """

    name: ClassVar[str]
    """What the learner is called in a configuration."""

    cost: ClassVar[str]
    """What one round costs, for k arms."""

    arms: Arms
    draws: Draws

    def __init__(self) -> None:
        # Takes nothing, and says so: compiled, a class without a constructor takes anything.
        pass

    def parameters(self) -> dict[str, object]:
        """Return the keyword arguments that make an equal learner."""
        return {}

    def begin(self, arms: Arms, draws: Draws) -> None:
        """Start, or start again, on these arms: what `arms` counts is known already."""
        self.arms = arms
        self.draws = draws

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:  # noqa: ARG002
        """Go on with other arms or quotas; ``kept[new]`` is the old index, None for a newcomer."""
        self.begin(arms, self.draws)

    def choose(self, round: int) -> Choice:
        """Choose an arm for `round`; `arms` counts what was assigned before it."""
        raise NotImplementedError

    def assigned(self, arm: int, assignment: Assignment) -> None:
        """Take in a pull, forced or chosen, already counted in `arms`."""

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        """Take in a reward, already counted in `arms`, with the assignment it answers."""

    def expired(self, arm: int, assignment: Assignment) -> None:
        """Take in that a reward is no longer waited for."""

    def state(self) -> Plain:
        """Return what the learner knows beyond `arms`, as plain data without caches."""
        return {}

    def restore(self, state: Plain) -> None:
        """Take back what `state` gave; called after `begin`."""


def check_probability(value: object, what: str) -> float:
    """Return a parameter that must be in (0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InvalidPool(f"{what} must be in (0, 1], got {value!r}")
    return float(value)
