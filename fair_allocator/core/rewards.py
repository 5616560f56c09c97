"""How a pool learns the outcome of its assignments: rewards, declines and timeouts."""

from typing import Any, Final, SupportsFloat

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidRequest, InvalidReward, shown
from fair_allocator.core.figures import Figures
from fair_allocator.core.numbers import parse_reward
from fair_allocator.core.requests import GONE, Assignment, Requests, RewardOutcome
from fair_allocator.core.texts import parse_text

# Aliases are faster: compiled code looks up globals and class attributes on each use.
_COUNTED: Final = RewardOutcome.COUNTED
_REPEATED: Final = RewardOutcome.REPEATED
_ARM_LEFT: Final = RewardOutcome.ARM_LEFT
_LATE: Final = RewardOutcome.LATE
_DECLINED: Final = RewardOutcome.DECLINED
_UNKNOWN: Final = RewardOutcome.UNKNOWN


@mypyc_attr(allow_interpreted_subclasses=True)
class Rewards(Figures):
    """The part of a pool that counts rewards; `Decisions` is the part that decides."""

    _requests: Requests

    def reward(
        self, request_id: str | Any, value: SupportsFloat | Any, arm: str | Any | None = None
    ) -> RewardOutcome:
        """Count the reward of a request. ``bool`` of the result is True only if it was counted.

        `arm` is the arm that the reward is for. It is needed if the request was given to several
        arms.

        Raises
        ------
        InvalidReward
            If the value is not a finite number in [0, 1], or the request was not given to this arm.
            Then nothing is counted, and the request can still be rewarded.
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
        if self._presence is not None and self._presence.limits():
            self._settle_presence(index)
        self._proposals.report()
        return _COUNTED

    def expire(
        self, request_id: str | Any, arm: str | Any | None = None, *, hold: bool = False
    ) -> bool:
        """Stop waiting for the rewards of a request, or for that of one of its arms.

        Return whether a reward was pending. With `hold`, the pool keeps the request open until each
        of these arms is replaced, or until `give_up` is called.
        """
        return bool(self._give_up_waiting(request_id, arm, _LATE, hold))

    def decline(
        self, request_id: str | Any, arm: str | Any | None = None, *, hold: bool = False
    ) -> RewardOutcome:
        """End an assignment that its arm declines.

        ``bool`` of the result is True only if the assignment was still open.

        The pull still counts, because the arm had the request. `arm` and `hold` mean the same as in
        `expire`, but `arm` is needed if the request was given to several arms.

        Raises
        ------
        InvalidReward
            If the request was not given to this arm, or was given to several and `arm` is missing.
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
        """Stop waiting for rewards; return how many were pending.

        A reward that comes from now on gets the outcome `later`.
        """
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
        """Stop holding a request, because no other arm can replace the arm that gave it up."""
        first = self._requests.known.get(request_id)
        if first is not None and request_id in self._requests.held:
            self._requests.release(first, self.rounds)

    def recall(self, request_id: str | Any) -> Assignment | None:
        """Return the answer to a request, or None if the pool does not remember it."""
        return self._requests.known.get(parse_text(request_id, "a request's id", InvalidRequest))

    def whose(self, request_id: str, arm: str | None) -> str | None:
        """Return the arm that a reward or decline is for; None if the request is not known.

        Raises
        ------
        InvalidReward
            If the request was not given to this arm, or was given to several and `arm` is missing.
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
        """How many rewards are pending."""
        return self._requests.open

    @property
    def footprint(self) -> int:
        """About how many bytes the open and the remembered requests take in memory."""
        return self._requests.footprint

    def waiting_of(self, request_id: str) -> list[Assignment]:
        """Return the picks of a request whose reward is pending."""
        first = self._requests.known.get(request_id)
        return [] if first is None else [pick for pick in first.picks if pick.later is None]

    def latest(self, most: int) -> list[Assignment]:
        """Return up to `most` of the latest answers, oldest first, as a repeat would get them."""
        return self._requests.latest(most)

    def waiting(self) -> list[Assignment]:
        """Return the picks whose reward is pending, oldest first."""
        return self._requests.waiting()

    def _settle_presence(self, arm: int) -> None:
        """Stop an arm's own clock if the arm is away now.

        If the arm is back, its own clock goes on from where it stopped.
        """
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
    """Return the pick that a reward is for, of the picks of a request.

    `arm` may be None if only one arm still has the request.
    """
    if arm is None:
        standing = [pick for pick in first.picks if pick.later not in GONE]
        if len(standing) == 1:
            return standing[0]
        raise InvalidReward(
            f"request {shown(first.request_id)} was given to {len(first.arms)} arms; "
            "name the arm in `arm`"
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
