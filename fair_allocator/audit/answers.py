"""What the last requests of a pool were given, to tell repeats from new answers."""

from collections import deque


class Given:
    """The arms that a request was given over its life: the first ones, then their replacements.

    `rounds` has the round of every arm that the request was ever given to, in order.
    """

    __slots__ = ("replaced", "round", "rounds")

    def __init__(self, round: int, arms: tuple[str, ...]) -> None:
        self.round = round
        self.rounds = dict.fromkeys(arms, round)
        self.replaced: set[str] = set()

    def again(self, round: int, arm: str, instead_of: str) -> None:
        """Give the request to another arm."""
        self.replaced.add(instead_of)
        self.rounds[arm] = round

    def fits(self, round: int, arms: tuple[str, ...]) -> bool:
        """Tell whether a repeat may name these arms.

        A repeat names the picks that are still valid. A pick whose arm declined is not, but no
        record says so before the request is given to another arm. If no pick is valid, the repeat
        names all of them.
        """
        standing = self.rounds.keys() - self.replaced
        return (
            len(set(arms)) == len(arms)
            and round in (self.round, self.rounds.get(arms[0]))
            and (standing.issuperset(arms) or self.rounds.keys() == set(arms))
        )


Answer = tuple[int, str] | Given
"""A round and its arm, or the long form if there is more. The short form saves memory."""


def given(answer: Answer) -> Given:
    """Return an answer in its long form."""
    return answer if isinstance(answer, Given) else Given(answer[0], (answer[1],))


def first_round(answer: Answer) -> int:
    """Return the round in which a request was answered first."""
    return answer.round if isinstance(answer, Given) else answer[0]


class Answers:
    """The last answers of a pool by request id, at most `window` of them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._answers: dict[str, Answer] = {}
        self._order: deque[str] = deque()
        self.has_all = window > 0
        """Whether no answer was forgotten."""
        self._orphans: deque[int] = deque(maxlen=window or 1)
        """The rounds in which a forgotten request was decided again."""

    def get(self, request_id: str) -> Answer | None:
        """Return the answer to a request, while it is remembered."""
        return self._answers.get(request_id)

    def add(self, request_id: str, answer: Answer) -> None:
        """Remember a new answer in place of the oldest."""
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
        """Remember that a forgotten request was decided again in a round."""
        self._orphans.append(round)

    def reach(self, round: int) -> bool:
        """Tell whether the answer of `round` would still be remembered."""
        if not self._order or round in self._orphans:
            return False
        return round >= first_round(self._answers[self._order[0]])
