"""A pool of the fake allocator: it decides requests and keeps those that wait."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]
Answer = tuple[int, Json]


class Problem(Exception):
    """The reason why the fake refuses a call."""

    def __init__(
        self, status: int, detail: str, reason: str | None = None, field: str | None = None
    ) -> None:
        super().__init__(detail)
        self._status = status
        known = {"title": detail, "detail": detail, "reason": reason, "field": field}
        self._content = {name: value for name, value in known.items() if value is not None}

    def answer(self) -> Answer:
        """Return the status and the content of the answer."""
        return self._status, {"status": self._status, **self._content}


class FakePool:
    """Arms with tags; a request goes to the arms with the fewest requests so far."""

    def __init__(
        self,
        name: str,
        arms: Mapping[str, Iterable[str]],
        publish: Callable[[Json], None],
        reassign: bool,
    ) -> None:
        self._name = name
        self._tags = {arm: set(tags) for arm, tags in arms.items()}
        self._publish = publish
        self._reassign = reassign
        self._given = dict.fromkeys(self._tags, 0)
        self._asleep: set[str] = set()
        self._paused = False
        self._rounds = 0
        self._wanted: list[tuple[str, ...]] = []
        self._answers: dict[str, Json] = {}
        self._waiting: dict[str, Json] = {}
        self._asked: dict[str, Json] = {}
        self._had: dict[str, list[str]] = {}

    def give_next(self, arms: tuple[str, ...]) -> None:
        """Give these arms to the next request."""
        unknown = [arm for arm in arms if arm not in self._tags]
        if unknown or not arms:
            raise ValueError(f"pool {self._name!r} has the arms {[*self._tags]}, got {[*arms]}")
        self._wanted.append(arms)

    # -- requests -------------------------------------------------------------------------------

    def request(self, request_id: str, event: Json) -> Answer:
        """Answer a request: decide it the first time, and repeat the answer later."""
        if request_id in self._answers:
            return 200, {**self._answers[request_id], "repeat": True}
        if request_id not in self._waiting:
            self._check(event)
            self._asked[request_id] = event
            if not self._decide(request_id):
                self._waiting[request_id] = event
        answer = self.find(request_id)
        assert answer is not None  # noqa: S101  (it was answered, or it waits)
        return answer

    def find(self, request_id: str) -> Answer | None:
        """Return the answer to a request, None if there was no such request."""
        if request_id in self._answers:
            return 200, self._answers[request_id]
        if request_id in self._waiting:
            why = "paused" if self._paused else "nobody-free"
            named = {"pool": self._name, "request_id": request_id}
            return 202, {**named, "status": "waiting", "why": why}
        return None

    def _check(self, event: Json) -> None:
        eligible, slots = event.get("eligible"), event.get("slots", 1)
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise Problem(422, "slots is a whole number from 1 on", "bad-event", "slots")
        if eligible is not None and "needs" in event:
            raise Problem(422, "a request has eligible or needs, not both", "refused")
        if eligible is not None and (not isinstance(eligible, list) or not eligible):
            raise Problem(422, "eligible is a list of arms", "bad-event", "eligible")
        self._able(event)

    def _able(self, event: Json) -> list[str]:
        """Return the arms that can take a request, including sleeping arms."""
        needs = event.get("needs")
        if needs is not None:
            return [arm for arm, tags in self._tags.items() if meets(needs, tags)]
        eligible = event.get("eligible")
        return [arm for arm in self._tags if eligible is None or arm in eligible]

    def _decide(self, request_id: str, instead_of: str | None = None) -> bool:
        """Give a request to arms, or one of its slots to another arm; False if no arm is free."""
        event, had = self._asked[request_id], self._had.setdefault(request_id, [])
        free = [arm for arm in self._able(event) if arm not in self._asleep and arm not in had]
        if self._paused or not free:
            return False
        slots = 1 if instead_of else event.get("slots", 1)
        chosen = tuple(sorted(free, key=self._given.__getitem__)[:slots])
        if self._wanted:
            chosen = self._wanted.pop(0)
        for arm in chosen:
            self._given[arm] += 1
        had += chosen
        self._rounds += 1
        self._waiting.pop(request_id, None)
        self._announce(request_id, chosen, instead_of)
        return True

    def _announce(self, request_id: str, arms: Sequence[str], instead_of: str | None) -> None:
        """Keep the answer, and publish the decision.

        If one arm was replaced, publish only the new arm.
        """
        picks = [{"arm": arm, "reason": "learner", "propensity": 1.0} for arm in arms]
        known: Json = {
            "pool": self._name,
            "request_id": request_id,
            "round": self._rounds,
            "epoch": 1,
            "repeat": False,
        }
        if instead_of is not None:
            known["instead_of"] = instead_of
        self._publish({"type": "assignment", **known, **picks[0], "others": picks[1:]})
        if instead_of is not None:
            before = self._answers[request_id]["arms"]
            picks = [picks[0] if pick["arm"] == instead_of else pick for pick in before]
        place = {"arm": picks[0]["arm"], "partition": 0, "offset": self._rounds - 1}
        self._answers[request_id] = {**known, "status": "assigned", "arms": picks, **place}

    def decline(self, request_id: str, arm: str | None) -> None:
        """Record that an arm declined; give its slot to another arm, if the pool reassigns."""
        answer = self._answers.get(request_id)
        if answer is None or not self._reassign:
            return
        arm = arm or answer["arm"]
        if arm in [pick["arm"] for pick in answer["arms"]]:
            self._decide(request_id, instead_of=arm)

    # -- controls -------------------------------------------------------------------------------

    def control(self, action: str, event: Json) -> None:
        """Apply a control; then decide the requests that wait."""
        arms: Any = event.get("arms") or ()
        if action in ("pause", "resume"):
            self._paused = action == "pause"
        elif action == "sleep":
            self._asleep |= set(arms)
        elif action == "wake":
            self._asleep -= set(arms)
        elif action == "set-arm":
            self._set({arm: settings.get("tags") for arm, settings in arms.items()})
        elif action == "remove-arm":
            self._remove(arms)
        elif action == "configure" and arms:
            self._remove([arm for arm in self._tags if arm not in arms])
            tags = event.get("tags") or {}
            self._set({arm: tags.get(arm) for arm in arms})
        for request_id in list(self._waiting):
            self._decide(request_id)

    def _set(self, arms: Mapping[str, Iterable[str] | None]) -> None:
        for arm, tags in arms.items():
            self._given.setdefault(arm, 0)
            known = self._tags.setdefault(arm, set())
            self._tags[arm] = known if tags is None else set(tags)

    def _remove(self, arms: Iterable[str]) -> None:
        for arm in arms:
            self._tags.pop(arm, None)
            self._given.pop(arm, None)

    def row(self) -> Json:
        """Return the figures of the pool, as in the page's list."""
        return {
            "name": self._name,
            "partition": 0,
            "rounds": self._rounds,
            "arms": len(self._tags),
            "worst": 0,
            "bound": None,
            "paused": self._paused,
            "waiting": len(self._waiting),
            "asleep": len(self._asleep & self._tags.keys()),
            "busy": 0,
        }

    def figures(self) -> Json:
        """Return the figures of the pool with those of its arms."""
        rows = [
            {
                "name": arm,
                "state": "asleep" if arm in self._asleep else "",
                "quota": 0.0,
                "share": given / self._rounds if self._rounds else 0.0,
                "short": 0,
                "pulls": given,
            }
            for arm, given in self._given.items()
        ]
        page = {"total": len(rows), "page": 1, "pages": 1, "rows": rows}
        return {**self.row(), "page": page}


_TOKEN: Final = re.compile(r"[\w.:-]+|[&|!()]|\S")


def meets(needs: str, tags: Collection[str]) -> bool:
    """Tell whether an arm with these tags can take a request with these needs.

    >>> meets("french & !(trainee | away)", {"french"}), meets("a | b", ())
    (True, False)
    """
    tokens = _TOKEN.findall(needs)

    def either() -> bool:
        found = both()
        while tokens and tokens[0] == "|":
            tokens.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while tokens and tokens[0] == "&":
            tokens.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        word = tokens.pop(0) if tokens else ""
        if word == "!":
            return not one()
        if word == "(":
            found = either()
            if not tokens or tokens.pop(0) != ")":
                raise Problem(422, f"needs: a bracket of {needs!r} is not closed", "refused")
            return found
        if not re.fullmatch(r"[\w.:-]+", word):
            raise Problem(422, f"needs: {needs!r} lacks a tag", "refused")
        return word in tags

    found = either()
    if tokens:
        raise Problem(422, f"needs: {needs!r} goes on after its end", "refused")
    return found
