"""The answers to the last requests of a pool, to tell repeats from new answers."""

from collections import deque


class Given:
    """All arms that a request was ever given to: the first ones, then their replacements.

    `rounds` has the round of each of these arms, in order.
    """

    __slots__ = ("replaced", "round", "rounds")

    def __init__(self, round: int, arms: tuple[str, ...]) -> None:
        self.round = round
        self.rounds = dict.fromkeys(arms, round)
        self.replaced: set[str] = set()

    def again(self, round: int, arm: str, instead_of: str) -> None:
        """Note that the request was given to `arm`, in place of the arm `instead_of`."""
        self.replaced.add(instead_of)
        self.rounds[arm] = round

    def fits(self, round: int, arms: tuple[str, ...]) -> bool:
        """Tell whether a repeat may name these arms.

        A repeat names the arms that still have the request. If none has it any more, the repeat
        names all of them. An arm no longer has the request after it has declined. But the audit
        sees this only when the request is given to another arm.
        """
        standing = self.rounds.keys() - self.replaced
        return (
            len(set(arms)) == len(arms)
            and round in (self.round, self.rounds.get(arms[0]))
            and (standing.issuperset(arms) or self.rounds.keys() == set(arms))
        )


Answer = tuple[int, str] | Given
"""A round and its arm. For a request with several arms a `Given`, which needs more memory."""


def given(answer: Answer) -> Given:
    """Return an answer as a `Given`."""
    return answer if isinstance(answer, Given) else Given(answer[0], (answer[1],))


def first_round(answer: Answer) -> int:
    """Return the round of the first answer to a request."""
    return answer.round if isinstance(answer, Given) else answer[0]


class Answers:
    """The last answers of a pool by request id, at most `window` of them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._answers: dict[str, Answer] = {}
        self._order: deque[str] = deque()
        self.has_all = window > 0
        """Whether all answers so far are still remembered."""
        self._orphans: deque[int] = deque(maxlen=window or 1)
        """The rounds in which a request was decided again after `Answers` had forgotten it."""

    def get(self, request_id: str) -> Answer | None:
        """Return the answer to a request, or None if it is not remembered."""
        return self._answers.get(request_id)

    def add(self, request_id: str, answer: Answer) -> None:
        """Remember a new answer. If there are too many, forget the oldest."""
        if not self._window:
            return
        if len(self._order) == self._window:
            forgotten = self._answers.pop(self._order.popleft())
            self.has_all = False
            if isinstance(forgotten, Given):
                for later in set(forgotten.rounds.values()) - {forgotten.round}:
                    self.add_orphan(later)
        self._answers[request_id] = answer
        self._order.append(request_id)

    def change(self, request_id: str, answer: Given) -> None:
        """Replace a remembered answer."""
        self._answers[request_id] = answer

    def add_orphan(self, round: int) -> None:
        """Remember a round in which a request was decided again whose answer was forgotten."""
        self._orphans.append(round)

    def reach(self, round: int) -> bool:
        """Tell whether an answer that was given in `round` would still be remembered."""
        if not self._order or round in self._orphans:
            return False
        return round >= first_round(self._answers[self._order[0]])
