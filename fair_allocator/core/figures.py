"""What a pool knows, to be read by anyone: its arms, its promise, and where every arm stands."""

from fractions import Fraction

from fair_allocator.core.arms import Arms, Departed
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.fairness import Fairness
from fair_allocator.core.guarantee import Epoch, Guarantee
from fair_allocator.core.learners import Learner


@mypyc_attr(allow_interpreted_subclasses=True)
class Figures:
    """The readable side of a pool; nothing here changes it. By arm means O(k)."""

    rounds: int
    """Rounds played so far."""

    _arms: Arms
    _fairness: Fairness
    _learner: Learner
    _departed: Departed
    _peak: int
    _peak_epoch: int
    _violated_epochs: int

    @property
    def columns(self) -> Arms:
        """The pool's own columns, to be read by whoever needs them quickly; not to be kept."""
        return self._arms

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, in order."""
        return tuple(self._arms.names)

    @property
    def size(self) -> int:
        """How many arms there are."""
        return len(self._arms)

    @property
    def quotas(self) -> dict[str, Fraction]:
        """The quotas as configured."""
        wanted = self._fairness.wanted
        return {
            name: wanted[arm] if arm in wanted else self._arms.quota(arm)
            for name, arm in self._arms.index.items()
        }

    @property
    def quotas_in_force(self) -> dict[str, Fraction]:
        """The quotas in force; a change that waits for nobody being owed may come with a round."""
        return dict(zip(self._arms.names, self._arms.quotas(), strict=True))

    @property
    def tolerance(self) -> Fraction:
        """The tolerance as configured; it is served with its floor."""
        return self._fairness.tolerance

    @property
    def rule(self) -> str:
        """The rule as configured; `guarantee` has the one in force."""
        return self._fairness.choice

    @property
    def learner(self) -> Learner:
        """The learner on top."""
        return self._learner

    @property
    def guarantee(self) -> Guarantee:
        """The rule in force and what it promises."""
        return self._fairness.guarantee

    def in_force(self) -> Epoch:
        """Return what is in force from the next round on, with where every arm stands; O(k)."""
        return self._fairness.in_force(range(len(self._arms)), self.rounds + 1)

    @property
    def epoch(self) -> int:
        """The number of the epoch in force."""
        return self._fairness.epoch

    @property
    def pulls(self) -> dict[str, int]:
        """Rounds given to each arm."""
        return dict(zip(self._arms.names, self._arms.pulls, strict=True))

    @property
    def forced(self) -> dict[str, int]:
        """Rounds each arm was given because it had to be served."""
        return dict(zip(self._arms.names, self._arms.forced, strict=True))

    @property
    def departed(self) -> Departed:
        """What arms that have left were given and earned."""
        return self._departed

    @property
    def observed(self) -> dict[str, int]:
        """Rewards counted for each arm."""
        return dict(zip(self._arms.names, self._arms.observed, strict=True))

    @property
    def pending(self) -> dict[str, int]:
        """Assignments of each arm that still wait for their reward."""
        return dict(zip(self._arms.names, self._arms.pending, strict=True))

    @property
    def means(self) -> dict[str, float | None]:
        """Mean observed reward of each arm, None where there is none."""
        return {name: self._arms.mean(arm) for name, arm in self._arms.index.items()}

    @property
    def entitled(self) -> dict[str, Fraction]:
        """What each arm is entitled to so far, exactly."""
        return {n: self._arms.entitled(arm, self.rounds) for n, arm in self._arms.index.items()}

    def shortfalls(self) -> dict[str, int]:
        """Return ``floor(entitled) - pulls`` of each arm, exactly."""
        return {n: self._arms.shortfall(arm, self.rounds) for n, arm in self._arms.index.items()}

    def violation(self) -> int:
        """Return the worst shortfall over all arms now, exactly; O(k)."""
        return max(self._arms.shortfall(arm, self.rounds) for arm in range(len(self._arms)))

    @property
    def peak_at_pulls(self) -> int:
        """The worst shortfall of an arm just before it was pulled in the epoch in force; O(1)."""
        return self._peak if self._peak_epoch == self._fairness.epoch else 0

    @property
    def violated_epochs(self) -> int:
        """Epochs so far in which an arm was pulled that was short by more than promised; O(1)."""
        return self._violated_epochs

    def peak_violation(self) -> int:
        """Return the worst shortfall since the epoch in force began, at least 0; O(k)."""
        return max(self.peak_at_pulls, self.violation())
