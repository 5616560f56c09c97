"""The interface between a pool and its learner.

A learner proposes arms whenever fairness leaves slots free, and is told of every pull, its own
and the forced ones. It sees the pool's counts in `Arms` and keeps only what is not already
there. It can be wrong, slow or malicious and no arm loses its share.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from heapq import nsmallest
from inspect import signature
from numbers import Real
from operator import index
from typing import Any, ClassVar, Final

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.numbers import parse_whole, plain
from fair_allocator.core.requests import CERTAIN, Assignment

Plain = Mapping[str, object]
"""Data made of None, bools, numbers, texts, lists and dicts only."""

Choice = tuple[int, float | None]
"""An arm's index and the probability with which it was to be chosen, None if it is not known.

With several arms it is the probability that the arm is one of those chosen.
"""

Chosen = Any
"""What a learner may return: a `Choice` or the index alone, in any type of integer and float."""

_REAL: Final[Any] = Real
"""Numbers of any make, numpy's too; as Any, since the type of neither can be compared."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Learner:
    """Base of the learners; `choose` is the one method a learner must bring.

    A learner of your own is a subclass. Give it to `Pool` as an object, or register it by name
    as an entry point of the group ``fair_allocator.learners``. Its constructor takes keyword
    parameters, and `parameters` returns them, so that a stored pool can make it again.

    The rules for a learner:

    - It reads `arms` and never writes to it. `begin` and `reshape` replace it.
    - Equal inputs make equal choices. Random numbers come from `draws`, which are functions
      of (seed, pool, round, purpose) and leave no state behind.
    - `choose` and `choose_several` change nothing that `state` would show: a crash between
      choosing and counting must leave no trace.

    Examples
    --------
    A learner that takes the arm with the largest mean reward:

    >>> class Greedy(Learner):
    ...     def choose(self, round, among=None):
    ...         arms = range(len(self.arms)) if among is None else among
    ...         return max(arms, key=lambda arm: self.arms.mean(arm) or 0.0)
    >>> arms = Arms()
    >>> arms.join(["ann", "bob", "cyd"], 1)
    >>> arms.observed, arms.total = [2, 2, 2], [0.5, 1.5, 1.0]
    >>> learner = Greedy()
    >>> learner.begin(arms, Draws(seed=7, pool="tasks"))
    >>> learner.choose(7), learner.choose(7, Among(3, named=[0, 2]))
    (1, 2)
    >>> learner.choose_several(7, Among(3), 2)
    [(1, None), (2, None)]
    """

    name: ClassVar[str] = ""
    """What the learner is called in a configuration."""

    cost: ClassVar[str] = ""
    """What one round costs, for k arms."""

    arms: Arms
    draws: Draws

    def __init__(self) -> None:
        # Says that it takes nothing: a compiled class without a constructor takes anything.
        pass

    def parameters(self) -> Mapping[str, object]:
        """Return the keyword arguments that make an equal learner."""
        return {}

    def begin(self, arms: Arms, draws: Draws) -> None:
        """Start, or start again, on these arms, whose counts may be above 0 already.

        Every arm is there until `present` says otherwise.
        """
        self.arms = arms
        self.draws = draws

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:  # noqa: ARG002
        """Go on with other arms or quotas; ``kept[new]`` is the old index, None for a newcomer.

        Every arm is there until `present` says otherwise.
        """
        self.begin(arms, self.draws)

    def choose(self, round: int, among: Among | None = None) -> Chosen:
        """Choose an arm for `round`; `arms` counts what was assigned before it.

        Return the arm's index, alone or with the probability with which it was to be chosen.
        `among` holds the arms that may be chosen. If all arms may be chosen, the pool calls
        `choose(round)` without it. `choose` may also have `round` as its only parameter. If it then
        returns an arm that may not be chosen, the pool takes the least pulled arm that may.
        """
        raise NotImplementedError

    def choose_several(self, round: int, among: Among, count: int) -> Sequence[Chosen]:
        """Choose `count` different arms of `among`, which has at least as many.

        The probability in a choice is that of the arm being one of those chosen. If you do not
        override this, `choose` is asked for one arm after the other.
        """
        kind: Any = type(self)
        if not _takes_among(kind):
            return self._choose_blindly(round, among, count)
        if count == 1:
            return [self.choose(round, among)]
        choices: list[Chosen] = []
        certain = True
        for _ in range(count):
            arm, propensity = _parts(self.choose(round, among))
            # A choice keeps its probability only if all choices before it were certain.
            certain = bool(certain and propensity == 1)
            choices.append((arm, CERTAIN if certain else None))
            among = among.without([arm])
        return choices

    def _choose_blindly(self, round: int, among: Among, count: int) -> list[Chosen]:
        """Ask `choose` without passing `among`, and fill up with the least pulled arms."""
        pulls = self.arms.pulls
        least = [arm for _, arm in nsmallest(count, [(pulls[arm], arm) for arm in among])]
        arm, propensity = _parts(self.choose(round))
        if arm not in among:
            return [(other, None) for other in least]
        if arm in least:
            least.remove(arm)
            if propensity != 1:
                propensity = None  # it might have been filled in as well
        else:
            least.pop()
        return [(arm, propensity), *((other, None) for other in least)]

    def present(self, arm: int, here: bool) -> None:
        """Note that an arm went away, asleep or busy, or came back.

        A learner needs this only to be fast: what may be chosen is in `among` each time.
        """

    def assigned(self, arm: int, assignment: Assignment) -> None:
        """Learn of a pull, forced or chosen, that `arms` already counts."""

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        """Learn of a reward that `arms` already counts, with the assignment it answers."""

    def expired(self, arm: int, assignment: Assignment) -> None:
        """Forget a pending reward: the pool no longer waits for it."""

    def state(self) -> Plain:
        """Return what the learner knows beyond `arms`, as plain data without caches."""
        return {}

    def restore(self, state: Plain) -> None:
        """Restore what `state` returned; called after `begin`."""


@cache
def _takes_among(kind: Any) -> bool:
    """Tell whether `choose` of a class takes the arms to choose among after the round."""
    try:
        signature(kind.choose).bind(None, 1, None)
    except TypeError:
        return False
    return True


def _parts(choice: Any) -> tuple[int, Any]:
    """Return the arm and the probability of what `choose` returned."""
    arm, propensity = choice if isinstance(choice, tuple) else (choice, None)
    return index(arm), propensity


def check_probability(value: Any, what: str) -> float:
    """Return a parameter that must be in (0, 1]."""
    return check_positive(value, what, 1.0)


def check_positive(value: Any, what: str, most: float) -> float:
    """Return a parameter that must be in (0, most], from any kind of real number."""
    number: Any = plain(value)
    if isinstance(number, bool) or not isinstance(number, _REAL) or not 0 < number <= most:
        raise InvalidPool(f"{what} must be in (0, {most:g}], got {shown(value)}")
    return float(number)


def check_count(value: Any, what: str) -> int:
    """Return a parameter that must be a whole number of at least 1."""
    return parse_whole(value, what, least=1)
