"""Check what a learner proposes, so that a faulty learner cannot stop the pool from deciding.

If a proposal cannot be used, the pool takes the arm with the fewest pulls among the arms that may
be chosen. Ties go to the lowest index. Faults are counted by kind. The first fault of each kind is
kept with its traceback and reported as a `LearnerWarning`.
"""

import warnings
from heapq import nsmallest
from json import dumps
from traceback import format_exc
from typing import Any, Final

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import LearnerWarning, shown
from fair_allocator.core.learners import Absent, Choice, Learner, Plain
from fair_allocator.core.learners.ucb1 import UCB1
from fair_allocator.core.numbers import unit_float, whole

RAISED: Final = "raised"
NO_CHOICE: Final = "no choice"
UNKNOWN_ARM: Final = "unknown arm"
NOT_ELIGIBLE: Final = "not eligible"
CHOSEN_TWICE: Final = "chosen twice"
PROPENSITY: Final = "propensity"
"""The kinds of faults."""

_OURS: Final = "fair_allocator.core.learners"

_NO_COUNTS: Final[dict[str, int]] = {}
_NO_FAULTS: Final[dict[str, str]] = {}
"""Empty dictionaries that all learners without faults share. Never add to them."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Proposals:
    """Asks a learner for choices, checks them, and counts the learner's faults."""

    __slots__ = ("_is_ours", "_reported", "_ucb1", "asking", "counts", "first", "learner")

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        # The choices of UCB1, our fastest learner, need no check.
        self._ucb1: UCB1 | None = learner if type(learner) is UCB1 else None
        self._is_ours = type(learner).__module__.startswith(_OURS)
        self.asking = False
        """Whether the learner is choosing now. While it does, it must not call its pool."""
        self.counts = _NO_COUNTS
        """How many faults of each kind there were."""
        self.first = _NO_FAULTS
        """The first fault of each kind, with its traceback if there is one."""
        self._reported = 0
        """How many of the faults in `first` were already reported."""

    def one(self, arms: Arms, round: int, among: Among | None = None) -> Choice:
        """Return the one arm that the learner chooses from `among`; None means from all arms."""
        if self._ucb1 is not None:
            return self._ucb1.choose(round, among)
        if among is not None:
            return self.several(arms, round, among, 1)[0]
        self.asking = True
        try:
            choice = self.learner.choose(round)
        except Exception:
            self.failed()
            return self._least_pulled(arms, Among(len(arms)), 1, set())[0]
        finally:
            self.asking = False
        if _is_plain(choice):
            arm: int = choice[0]
            if 0 <= arm < len(arms):
                propensity: float | None = choice[1]
                return arm, propensity
        return self._checked(arms, Among(len(arms)), 1, [choice])[0]

    def several(self, arms: Arms, round: int, among: Among, count: int) -> list[Choice]:
        """Return the learner's choice of `count` arms of `among`."""
        if self._ucb1 is not None:
            return self._ucb1.choose_several(round, among, count)
        # A user's own learner may change the set that it gets, so it gets a copy.
        given = among if self._is_ours else among.copy()
        self.asking = True
        try:
            choices: list[Any] = list(self.learner.choose_several(round, given, count))
        except Exception:
            self.failed()
            choices = []
        else:
            if len(choices) != count:
                self.fault(NO_CHOICE, f"chose {len(choices)} arms where {count} were wanted")
            elif count == 1 and _is_plain(choices[0]):
                arm: int = choices[0][0]
                if arm in among:
                    return choices
        finally:
            self.asking = False
        return self._checked(arms, among, count, choices[:count])

    def _checked(self, arms: Arms, among: Among, count: int, choices: list[Any]) -> list[Choice]:
        """Return the valid choices; if there are too few, add the arms with the fewest pulls."""
        good: list[Choice] = []
        taken: set[int] = set()
        for choice in choices:
            try:
                self._check(arms, among, choice, taken, good)
            except Exception:
                self.failed()
        if len(good) < count:
            good += self._least_pulled(arms, among, count - len(good), taken)
        return good

    def _check(
        self, arms: Arms, among: Among, choice: Any, taken: set[int], good: list[Choice]
    ) -> None:
        """Add a valid choice to `good`; count an invalid one as a fault."""
        is_pair = isinstance(choice, tuple) and len(choice) == 2
        said, chance = choice if is_pair else (choice, None)
        arm = whole(said)
        propensity = None if chance is None else unit_float(chance)
        if arm is None:
            self.fault(NO_CHOICE, f"chose {shown(choice)}, which is not the index of an arm")
        elif not 0 <= arm < len(arms):
            self.fault(UNKNOWN_ARM, f"chose arm {shown(arm)} of {len(arms)}")
        elif arm in taken:
            self.fault(CHOSEN_TWICE, f"chose arm {arm} twice")
        elif arm not in among:
            self.fault(NOT_ELIGIBLE, f"chose arm {arm}, which may not be chosen")
        elif chance is not None and not propensity:
            self.fault(PROPENSITY, f"chose arm {arm} with the propensity {shown(chance)}")
        else:
            taken.add(arm)
            good.append((arm, propensity))

    def _least_pulled(self, arms: Arms, among: Among, count: int, taken: set[int]) -> list[Choice]:
        free = [(arms.pulls[arm], arm) for arm in among if arm not in taken]
        return [(arm, None) for _, arm in nsmallest(count, free)]

    def learned(self) -> Plain | None:
        """Return the learner's state as plain data; None if the learner fails to return it."""
        if isinstance(self.learner, Absent):
            return self.learner.learned
        if self._is_ours:
            return self.learner.state()
        try:
            state = self.learner.state()
            dumps(state)  # raises for a state that could not be stored
        except Exception:
            self.failed()
            return None
        return state

    def fault(self, kind: str, what: str) -> None:
        """Count a fault of the learner."""
        if not self.counts:
            self.counts, self.first = {}, {}
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in self.first:
            self.first[kind] = what

    def failed(self) -> None:
        """Count the exception that is being handled as a fault."""
        # Formatting a traceback takes ten times as long as a decision, so only the first one is
        # formatted.
        self.fault(RAISED, "" if RAISED in self.first else format_exc())

    def report(self) -> None:
        """Warn of the faults that were not reported yet.

        Call this after the decision is counted.
        """
        while self._reported < len(self.first):
            name = type(self.learner).__name__
            what = list(self.first.values())[self._reported].strip()
            self._reported += 1
            warnings.warn(
                f"learner {name}: {what}\nthe pool decided without it", LearnerWarning, stacklevel=3
            )


def _is_plain(choice: Any) -> bool:
    """Tell whether a choice is a Python int with a Python float or None, the most common case."""
    if type(choice) is not tuple or len(choice) != 2 or type(choice[0]) is not int:
        return False
    propensity = choice[1]
    return propensity is None or (type(propensity) is float and 0.0 < propensity <= 1.0)
