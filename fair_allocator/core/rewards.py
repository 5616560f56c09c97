"""How a pool learns the outcome of its assignments: rewards, declines and timeouts."""

from typing import Any, Final, SupportsFloat

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidRequest, InvalidReward, shown
from fair_allocator.core.figures import Figures
from fair_allocator.core.numbers import parse_reward
from fair_allocator.core.requests import GONE, Assignment, Requests, RewardOutcome
from fair_allocator.core.texts import parse_text

# Aliases: compiled code looks up globals and the attributes of classes on each use.
_COUNTED: Final = RewardOutcome.COUNTED
_REPEATED: Final = RewardOutcome.REPEATED
_ARM_LEFT: Final = RewardOutcome.ARM_LEFT
_LATE: Final = RewardOutcome.LATE
_DECLINED: Final = RewardOutcome.DECLINED
_UNKNOWN: Final = RewardOutcome.UNKNOWN


@mypyc_attr(allow_interpreted_subclasses=True)
class Rewards(Figures):
    """The side of a pool that learns; `Decisions` is the one that decides."""

    _requests: Requests

    def reward(
        self, request_id: str | Any, value: SupportsFloat | Any, arm: str | Any | None = None
    ) -> RewardOutcome:
        """Count the reward of a request; the outcome is true only if it counted.

        `arm` says whose reward it is; a request with several arms needs it.

        Raises
        ------
        InvalidReward
            If the value is not a finite number in [0, 1], or the arm is not one the request was
            given. Nothing is counted then, and the request can still be rewarded.
        """
        if type(value) is float and 0.0 <= value <= 1.0:
            reward = value
        else:
            reward = parse_reward(value, request_id)
        if type(request_id) is not str:
            request_id = parse_text(request_id, "a request's id", InvalidReward)
        requests, arms = self._requests, self._arms
        first = requests.known.get(request_id)
        if first is None:
            return _UNKNOWN
        pick = first
        if arm is not None or first.others:
            pick = _picked(first, arm)
        if pick.later is not None:
            return pick.later
        index = arms.index.get(pick.arm)
        if index is None or arms.joined[index] > pick.round:
            requests.close(first, pick, _ARM_LEFT, self.rounds)
            return _ARM_LEFT
        requests.close(first, pick, _REPEATED, self.rounds)
        arms.pending[index] -= 1
        arms.observed[index] += 1
        arms.total[index] += reward
        try:
            self._learner.observed(index, pick, reward)
        except Exception:
            self._proposals.failed()
        if self._presence is not None:
            self._settle_presence(index)
        self._proposals.report()
        return _COUNTED

    def expire(
        self, request_id: str | Any, arm: str | Any | None = None, *, hold: bool = False
    ) -> bool:
        """Stop waiting for a request's rewards, or for one arm's; tell whether one was pending.

        With `hold` the request is kept until each of these arms is replaced, or until `give_up`.
        """
        return bool(self._give_up_waiting(request_id, arm, _LATE, hold))

    def decline(
        self, request_id: str | Any, arm: str | Any | None = None, *, hold: bool = False
    ) -> RewardOutcome:
        """End an assignment that its arm declines; true if it was still open.

        The pull stays counted: the arm had its chance. `arm` and `hold` are as for `expire`, but
        a request with several arms needs `arm`.

        Raises
        ------
        InvalidReward
            If the request was not given to this arm, or to several and `arm` is left out.
        """
        request_id = parse_text(request_id, "a request's id", InvalidReward)
        first = self._requests.known.get(request_id)
        if first is None:
            return _UNKNOWN
        pick = _picked(first, arm) if arm is not None or first.others else first
        if pick.later is not None:
            return pick.later
        self._give_up_waiting(request_id, pick.arm, _DECLINED, hold)
        return _COUNTED

    def _give_up_waiting(
        self, request_id: str | Any, arm: str | Any | None, later: RewardOutcome, hold: bool
    ) -> int:
        """Stop waiting for rewards; return how many were waited for."""
        request_id = parse_text(request_id, "a request's id", InvalidReward)
        first = self._requests.known.get(request_id)
        if first is None:
            return 0
        picks = first.picks if arm is None else (_picked(first, arm),)
        waited = [pick for pick in picks if pick.later is None]
        for pick in waited:
            if hold:
                self._requests.hold(request_id)
            self._requests.close(first, pick, later, self.rounds)
            index = self._arms.index.get(pick.arm)
            if index is not None and self._arms.joined[index] <= pick.round:
                self._arms.pending[index] -= 1
                try:
                    self._learner.expired(index, pick)
                except Exception:
                    self._proposals.failed()
                if self._presence is not None:
                    self._settle_presence(index)
        self._proposals.report()
        return len(waited)

    def give_up(self, request_id: str) -> None:
        """Release a request that was held for an arm that cannot be replaced."""
        first = self._requests.known.get(request_id)
        if first is not None and request_id in self._requests.held:
            self._requests.release(first, self.rounds)

    def recall(self, request_id: str | Any) -> Assignment | None:
        """Return the answer a request was given, while it is remembered."""
        return self._requests.known.get(parse_text(request_id, "a request's id", InvalidRequest))

    def whose(self, request_id: str, arm: str | None) -> str | None:
        """Return the arm that a reward or decline is for; None if the request is not known.

        Raises
        ------
        InvalidReward
            If the request was not given to this arm, or to several and `arm` is left out.
        """
        first = self._requests.known.get(request_id)
        if first is None:
            return None
        return _picked(first, arm).arm if arm is not None or first.others else first.arm

    def is_open(self, request_id: str) -> bool:
        """Tell whether a request still waits for a reward or for another arm."""
        return self._requests.is_open(request_id)

    @property
    def open(self) -> int:
        """How many rewards are waited for."""
        return self._requests.open

    @property
    def footprint(self) -> int:
        """About how many bytes the open and the remembered requests take in memory."""
        return self._requests.footprint

    def waiting_of(self, request_id: str) -> list[Assignment]:
        """Return the picks of a request whose reward is waited for."""
        first = self._requests.known.get(request_id)
        return [] if first is None else [pick for pick in first.picks if pick.later is None]

    def latest(self, most: int) -> list[Assignment]:
        """Return the last answers that are remembered, oldest first, as if asked for again."""
        return self._requests.latest(most)

    def waiting(self) -> list[Assignment]:
        """Return the picks whose reward is waited for, oldest first."""
        return self._requests.waiting()

    def _settle_presence(self, arm: int) -> None:
        """Stop or restart an arm's clock as it goes away or comes back."""
        presence = self._presence
        if presence is None:
            return
        here = not presence.is_away(arm)
        if here != (arm in presence.away):
            return
        if here:
            self._fairness.come_back(arm, self._clock)
            presence.away.discard(arm)
        else:
            self._fairness.leave(arm, self._clock)
            presence.away.add(arm)
        presence.moved.symmetric_difference_update((arm,))
        try:
            self._learner.present(arm, here)
        except Exception:
            self._proposals.failed()


def _picked(first: Assignment, arm: str | Any | None) -> Assignment:
    """Return the assignment of the arm that a reward is for.

    It need not be named if only one arm still has the request.
    """
    if arm is None:
        standing = [pick for pick in first.picks if pick.later not in GONE]
        if len(standing) == 1:
            return standing[0]
        raise InvalidReward(
            f"request {shown(first.request_id)} was given to {len(first.arms)} arms; "
            "say by `arm` whose reward it is"
        )
    if type(arm) is not str:
        arm = parse_text(arm, "an arm's name", InvalidReward)
    pick = first.pick(arm)
    if pick is None:
        given = ", ".join(map(shown, first.arms[:8]))
        raise InvalidReward(
            f"request {shown(first.request_id)} was given to {given}, not to {shown(arm)}"
        )
    return pick
