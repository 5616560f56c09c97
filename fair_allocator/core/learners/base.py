"""The interface between a pool and its learner.

A learner proposes arms for the slots that fairness leaves free. The pool tells the learner of every
pull: of the pulls that the learner chose, and of those that the fairness rule forced. A learner
reads the pool's counts in `Arms`, and stores only data that `Arms` does not have. Even if a learner
is wrong, slow or malicious, every arm gets its guaranteed share.
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
"""An arm's index, and the probability with which the arm was chosen (None if it is not known).

If several arms are chosen, it is the probability that this arm is one of them.
"""

Chosen = Any
"""What a learner may return: a `Choice`, or only the index. All integer and float types are fine.
"""

_REAL: Final[Any] = Real
"""All real numbers, also those of numpy. It is Any, because mypy cannot compare their types."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Learner:
    """Base class of the learners. A learner must define `choose`; all other methods have defaults.

    To write a learner of your own, make a subclass. Pass it to `Pool` as an object, or register it
    by name as an entry point of the group ``fair_allocator.learners``. Its constructor takes
    keyword parameters, and `parameters` returns them. A stored pool uses them to make the learner
    again.

    The rules for a learner:

    - It reads `self.arms` and never writes to it. `begin` and `reshape` replace `self.arms`.
    - From the same inputs it makes the same choices. Its random numbers come from `self.draws`,
      which computes each number from (seed, pool, round, purpose).
    - `choose` and `choose_several` do not change what `state` returns. So a crash between choosing
      and counting has no effect.

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
    """The learner's name in a configuration."""

    cost: ClassVar[str] = ""
    """The running time of one round, for k arms."""

    __slots__ = ("arms", "draws")

    arms: Arms
    draws: Draws

    def __init__(self) -> None:
        # This constructor refuses arguments. A compiled class without a constructor would accept
        # any.
        pass

    def parameters(self) -> Mapping[str, object]:
        """Return the keyword arguments that make an equal learner."""
        return {}

    def begin(self, arms: Arms, draws: Draws) -> None:
        """Start, or start again, with these arms. Their counts may already be above 0.

        Every arm is present until `present` is called for it.
        """
        self.arms = arms
        self.draws = draws

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:  # noqa: ARG002
        """Continue with other arms or quotas.

        ``kept[new]`` is the old index of the arm with the index `new`, or None for an added arm.

        Every arm is present until `present` is called for it.
        """
        self.begin(arms, self.draws)

    def choose(self, round: int, among: Among | None = None) -> Chosen:
        """Choose an arm for `round`. `self.arms` has counted all rounds before it.

        Return the arm's index, alone or with the probability with which it was chosen. `among` has
        the arms that may be chosen. If all arms may be chosen, the pool calls `choose(round)`
        without `among`. Your `choose` may leave out the parameter `among`. If it then returns an
        arm that may not be chosen, the pool takes, of the arms that may be chosen, the one with the
        fewest pulls.
        """
        raise NotImplementedError

    def choose_several(self, round: int, among: Among, count: int) -> Sequence[Chosen]:
        """Choose `count` different arms of `among`, which has at least this many.

        If a choice comes with a probability, it is the probability that this arm is among the
        chosen arms. If you do not override this method, it calls `choose` for one arm after the
        other.
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
            # The probability is known only if this choice and all choices before it are certain.
            certain = bool(certain and propensity == 1)
            choices.append((arm, CERTAIN if certain else None))
            among = among.without([arm])
        return choices

    def _choose_blindly(self, round: int, among: Among, count: int) -> list[Chosen]:
        """Call `choose` without `among`; then add arms, fewest pulls first, up to `count` arms."""
        pulls = self.arms.pulls
        least = [arm for _, arm in nsmallest(count, [(pulls[arm], arm) for arm in among])]
        arm, propensity = _parts(self.choose(round))
        if arm not in among:
            return [(other, None) for other in least]
        if arm in least:
            least.remove(arm)
            if propensity != 1:
                propensity = None  # unknown: the arm could also have been added for its few pulls
        else:
            least.pop()
        return [(arm, propensity), *((other, None) for other in least)]

    def present(self, arm: int, here: bool) -> None:
        """Note that an arm came back (`here`), or went away because it is asleep or busy.

        A learner needs this only to be fast: `among` always has the arms that may be chosen.
        """

    def assigned(self, arm: int, assignment: Assignment) -> None:
        """Learn from a pull, forced or chosen. `self.arms` already counts it."""

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        """Learn from the reward of an assignment. `self.arms` already counts it."""

    def expired(self, arm: int, assignment: Assignment) -> None:
        """Forget a pending reward: the pool no longer waits for it."""

    def state(self) -> Plain:
        """Return what the learner knows and `Arms` does not store, as plain data without caches."""
        return {}

    def restore(self, state: Plain) -> None:
        """Restore what `state` returned. The pool calls this after `begin`."""


@cache
def _takes_among(kind: Any) -> bool:
    """Tell whether the `choose` of a class has the parameter `among`."""
    try:
        signature(kind.choose).bind(None, 1, None)
    except TypeError:
        return False
    return True


def _parts(choice: Any) -> tuple[int, Any]:
    """Return the arm and the probability (or None) in a result of `choose`."""
    arm, propensity = choice if isinstance(choice, tuple) else (choice, None)
    return index(arm), propensity


def check_probability(value: Any, what: str) -> float:
    """Return a learner's parameter that must be in (0, 1]; refuse other values."""
    return check_positive(value, what, 1.0)


def check_positive(value: Any, what: str, most: float) -> float:
    """Return a learner's parameter that must be a real number in (0, most]; refuse other values."""
    number: Any = plain(value)
    if isinstance(number, bool) or not isinstance(number, _REAL) or not 0 < number <= most:
        raise InvalidPool(f"{what} must be in (0, {most:g}], got {shown(value)}")
    return float(number)


def check_count(value: Any, what: str) -> int:
    """Return a learner's parameter that must be a whole number of at least 1; refuse others."""
    return parse_whole(value, what, least=1)
