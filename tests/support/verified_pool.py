"""A pool as the verifier computes it from the records, without the code of the service."""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor
from typing import Any

from tests.selection.invariant import fits
from tests.support.judge import Json
from tests.support.requirement import require


@dataclass(slots=True)
class Arm:
    """One arm. `joined` is its first round. `capped` is how many pulls its cap allows so far."""

    joined: int
    quota: Fraction = Fraction(0)
    entitled: Fraction = Fraction(0)
    pulls: int = 0
    pending: int = 0
    observed: int = 0
    total: float = 0.0
    cap: Fraction | None = None
    capped: Fraction = Fraction(0)


@dataclass(slots=True)
class Pick:
    """An arm that a request was given. `stands` is True until the arm declines or is replaced."""

    request_id: str
    arm: str
    round: int
    clock: int
    stands: bool = True


@dataclass(slots=True)
class Known:
    """A request that was answered. `held` counts its arms that are still to be replaced."""

    picks: list[Pick]
    asked: Json | None
    held: int = 0


@dataclass(frozen=True, slots=True)
class Waiter:
    """A request that waits, with its offset and the time since when it waits."""

    offset: int
    request: Json
    since: int


@dataclass(slots=True)
class Life:
    """A pool, from the time when it is made until it is removed."""

    name: str
    remembered: int = 1_000
    settings: dict[str, Any] = field(default_factory=dict)
    paused: bool = False
    rounds: int = 0
    epoch: int = 0
    requests: str = "plain"
    bound: int | None = None
    bank: int | None = None
    stood: int = 0
    arms: dict[str, Arm] = field(default_factory=dict)
    asleep: set[str] = field(default_factory=set)
    told_away: set[str] = field(default_factory=set)
    open: dict[tuple[str, str], Pick] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    closed: deque[str] = field(default_factory=deque)
    waiting: dict[tuple[str, str], Waiter] = field(default_factory=dict)
    taken: deque[int] = field(default_factory=deque)
    """The times at which requests were taken, while a rate is set."""
    again: dict[tuple[str, str], Json] = field(default_factory=dict)
    """Requests that have to be decided again now, by request and arm to replace."""

    # -- settings -----------------------------------------------------------------------------

    def take_settings(self, settings: Mapping[str, Any]) -> None:
        """Set the given settings. Settings that are left out do not change."""
        nullable = {"reward_timeout", "default_reward", "wait_timeout", "max_open", "tags"}
        nullable |= {"rate", "burst"}
        for name, value in settings.items():
            if value is not None or name in nullable:
                self.settings[name] = value
        if self.settings.get("rate") is None:
            self.taken.clear()
        self._keep_known_arms()

    def take_arms(self, arms: Mapping[str, Json]) -> None:
        """Set the given settings of single arms."""
        most = self.settings.get("max_open")
        limits = dict.fromkeys(self.arms, most) if isinstance(most, int) else dict(most or {})
        tags = dict(self.settings.get("tags") or {})
        for arm, said in arms.items():
            if isinstance(most, int) and arm not in self.arms:
                limits[arm] = most
            if "max_open" in said:
                limits[arm] = said["max_open"]
            if "tags" in said:
                tags[arm] = said["tags"] or []
        limits = {arm: limit for arm, limit in limits.items() if limit is not None}
        common = isinstance(most, int) and set(limits.values()) == {most}
        self.settings |= {"max_open": most if common else limits, "tags": tags}

    def _keep_known_arms(self) -> None:
        """Forget the settings of arms that are not in the pool."""
        for name in ("max_open", "tags"):
            if isinstance(said := self.settings.get(name), dict) and self.arms:
                self.settings[name] = {arm: each for arm, each in said.items() if arm in self.arms}

    def milliseconds(self, name: str) -> int | None:
        seconds = self.settings.get(name)
        return None if seconds is None else max(1, round(seconds * 1000))

    # -- the rate -----------------------------------------------------------------------------

    def is_too_fast(self, clock: int) -> bool:
        """Tell whether one more request would exceed the rate, in any window of time."""
        rate = self.settings.get("rate")
        if rate is None:
            return False
        burst = self.settings.get("burst") or rate
        return any(
            sum(at >= since for at in self.taken) + 1
            > burst + Fraction(rate * (clock - since), 1000)
            for since in self.taken
        )

    def take(self, clock: int) -> None:
        if self.settings.get("rate") is not None:
            self.taken.append(clock)

    # -- who can take a request ---------------------------------------------------------------

    def away(self) -> set[str]:
        """Return the arms that are asleep or busy."""
        if self.requests == "plain":
            return set()
        most = self.settings.get("max_open")
        limits = dict.fromkeys(self.arms, most) if isinstance(most, int) else most or {}
        busy = {arm for arm, each in self.arms.items() if each.pending >= limits.get(arm, 1 << 60)}
        return (self.asleep & self.arms.keys()) | busy

    def able(self, request: Json, instead_of: str = "") -> set[str]:
        """Return the arms that can take a request, if they are present."""
        able = set(self.arms)
        if request.get("eligible") is not None:
            able &= set(request["eligible"])
        elif request.get("needs") is not None:
            tags = self.settings.get("tags") or {}
            able = {arm for arm in able if meets(request["needs"], tuple(tags.get(arm) or ()))}
        if instead_of:
            able -= {pick.arm for pick in self.known[request["request_id"]].picks}
        return able

    # -- what becomes of assignments ----------------------------------------------------------

    def recall(self, request_id: str) -> Known | None:
        return self.known.get(request_id)

    def close(self, pick: Pick, value: float | None) -> None:
        """Stop waiting for a pick; count its reward, if there is one and its arm is still there."""
        del self.open[pick.request_id, pick.arm]
        arm = self.arms.get(pick.arm)
        if arm is not None and arm.joined <= pick.round:
            arm.pending -= 1
            if value is not None:
                arm.observed += 1
                arm.total += value
        self._settle(pick.request_id)

    def _settle(self, request_id: str) -> None:
        """Remember a request as closed, if none of its picks is open."""
        known = self.known[request_id]
        if known.held or any((request_id, pick.arm) in self.open for pick in known.picks):
            return
        self.closed.append(request_id)
        known.asked = None
        # A closed request is forgotten when `remembered` more were closed, and as many rounds
        # played.
        while len(self.closed) > self.remembered:
            if self.known[self.closed[0]].picks[0].round > self.rounds - self.remembered:
                break
            del self.known[self.closed.popleft()]

    def give_back(self, pick: Pick, value: float | None, *, declined: bool = False) -> None:
        """Close a pick that was declined or timed out. Its request may be decided again."""
        known = self.known[pick.request_id]
        if declined:
            pick.stands = False
        if self.settings.get("reassign") and known.asked is not None:
            known.held += 1
            self.again[pick.request_id, pick.arm] = known.asked
            value = None
        self.close(pick, value)

    def give_up(self, request_id: str, instead_of: str) -> None:
        """Forget a request that will not be decided, or not decided again."""
        self.waiting.pop((request_id, instead_of), None)
        if instead_of:
            self.known[request_id].held -= 1
            self._settle(request_id)

    def expire(self, clock: int) -> list[Waiter]:
        """Apply the timeouts that are due; return the requests that have waited for too long."""
        timeout, default = self.milliseconds("reward_timeout"), self.settings.get("default_reward")
        for pick in list(self.open.values()):
            if timeout is not None and pick.clock + timeout <= clock:
                self.give_back(pick, default)
        timeout = self.milliseconds("wait_timeout")
        tired = []
        for key, waiter in list(self.waiting.items()):
            if timeout is not None and waiter.since + timeout <= clock:
                self.give_up(*key)
                tired.append(waiter)
        return tired

    def make_room(self, most: int) -> None:
        """Expire the oldest picks while there are more than `most`."""
        while len(self.open) >= most:
            self.close(next(iter(self.open.values())), self.settings.get("default_reward"))

    # -- rounds -------------------------------------------------------------------------------

    def play(self, event: Json, request: Json, clock: int) -> None:
        """Count a round, and check every arm (I4)."""
        here = f"I4: {self.name} round {event['round']}:"
        instead_of = event.get("instead_of", "")
        picks = [event, *event.get("others", ())]
        names = [pick["arm"] for pick in picks]
        require(event["round"] == self.rounds + 1, "a gap in the rounds:", event)
        require(event["epoch"] == self.epoch, "of another epoch:", event)
        able = self._eligible(event, request, here)
        require(len(set(names)) == len(names) and able >= set(names), here, names, "of", able)
        wanted = 1 if instead_of else request.get("slots") or 1
        full = min(wanted, len(able))
        fewer = any(arm.cap is not None for arm in self.arms.values()) and len(picks) < full
        require(len(picks) == full or fewer, here, len(picks), "slots filled, not", full)
        self.rounds += 1
        for name in able:
            arm = self.arms[name]
            arm.entitled += min(Fraction(1), arm.quota * len(picks))
            if arm.cap is not None:
                arm.capped += min(Fraction(1), arm.cap * len(picks))
        for pick in picks:
            self._pull(self.arms[pick["arm"]], pick["reason"] == "learner", len(picks), here)
        self._demand_fair(here)
        made = [Pick(event["request_id"], name, self.rounds, clock) for name in names]
        self._give(event["request_id"], made, request, instead_of)

    def _eligible(self, event: Json, request: Json, here: str) -> set[str]:
        """Return the arms that could take a request according to the record.

        Check that they are the same according to the inputs.
        """
        away, gone, back = self.away(), set(event.get("away", ())), set(event.get("back", ()))
        require(not gone & self.told_away and back <= self.told_away, here, "was away:", event)
        require("eligible" not in event or "but" not in event, here, "says both:", event)
        self.told_away = (self.told_away | gone) - back
        require(self.told_away == away, here, "away are", away, "not", self.told_away)
        present = self.arms.keys() - away
        able = present - set(event.get("but", ()))
        if "eligible" in event:
            able = set(event["eligible"])
        ought = self.able(request, event.get("instead_of", "")) & present
        require(able == ought, here, "eligible are", ought, "not", able)
        return able

    def _pull(self, arm: Arm, chosen: bool, slots: int, here: str) -> None:
        """Count a pull. A pull that the learner chose counts only as far as the bank allows."""
        within = arm.cap is None or not chosen or arm.pulls < arm.capped
        require(within, here, "beyond its cap:", arm)
        arm.pulls += 1
        if chosen and self.bank is not None:
            before = arm.entitled - min(Fraction(1), arm.quota * slots)
            arm.entitled = max(arm.entitled, min(before + 1, Fraction(arm.pulls - self.bank)))

    def _give(self, request_id: str, made: list[Pick], request: Json, instead_of: str) -> None:
        """Begin to wait for the rewards of a decision."""
        for pick in made:
            self.open[request_id, pick.arm] = pick
            self.arms[pick.arm].pending += 1
        self.waiting.pop((request_id, instead_of), None)
        if not instead_of:
            keep = self.requests == "any" and self.settings.get("reassign")
            self.known[request_id] = Known(made, request if keep else None)
            return
        known = self.known[request_id]
        for pick in known.picks:
            pick.stands = pick.stands and pick.arm != instead_of
        known.picks += made
        known.held -= 1
        self.again.pop((request_id, instead_of), None)

    def _demand_fair(self, here: str) -> None:
        for name, arm in self.arms.items():
            short = floor(arm.entitled) - arm.pulls
            fair = self.bound is None or short <= self.bound
            require(fair, here, "arm", name, "is short by", short)
        self.demand_safe()

    def demand_safe(self) -> None:
        """Check that the promise can be kept from this state.

        A fault is found here long before an arm falls short.
        """
        if self.bound is not None:
            arms = self.arms.values()
            lines = [(arm.entitled - arm.pulls - self.bound, arm.quota) for arm in arms]
            require(fits(lines), "I4:", self.name, "round", self.rounds, "is not safe:", lines)

    def announce(self, event: Json) -> None:
        """Use an epoch record, after checking it against what is known (I4)."""
        here = f"I4: {self.name} round {event['round']}:"
        require(event["round"] == self.rounds + 1, here, "announced in round", self.rounds + 1)
        require(event["epoch"] >= self.epoch, here, "epoch goes back from", self.epoch)
        bank = event.get("bank")
        forgives = bank is not None and (self.bank is None or bank < self.bank)
        self.requests, self.bank = event.get("requests", "plain"), bank
        if event["complete"]:
            require(event["chunks"] == 1, "this verifier reads no chunks")
            self.stood = event["folded"]["requests"]
            self.arms = {n: self.arms.get(n) or Arm(self.rounds + 1) for n in event["arms"]}
            self.told_away = {n for n, arm in event["arms"].items() if arm.get("away")}
        for name in event.get("left", ()):
            require(self.arms.pop(name, None) is not None, here, "no arm", name)
        for name, standing in event["arms"].items():
            arm = self.arms.setdefault(name, Arm(self.rounds + 1))
            if forgives and bank is not None:
                arm.entitled = max(arm.entitled, Fraction(arm.pulls - bank))
            said = Fraction(standing["entitled"]), standing["pulls"]
            require(said == (arm.entitled, arm.pulls), here, name, "stands at", arm, "not", said)
            arm.quota = Fraction(standing["quota"])
            if "cap" in standing or event["complete"]:
                cap = Fraction(standing.get("cap", 1))
                arm.cap = cap if cap < 1 else None
                arm.capped = Fraction(standing.get("capped", 0))
        self.told_away &= self.arms.keys()
        self.asleep &= self.arms.keys()
        self._keep_known_arms()
        require(sum(arm.quota for arm in self.arms.values()) <= 1, here, "overbooked")
        bound, asked = event["bound"], floor(Fraction(event["tolerance"]))
        require((bound is None) == (event["rule"] == "none"), here, "bound without a rule")
        if bound is not None:
            require(asked <= bound <= max(asked, self.bound or 0), here, "bound", bound)
        self.bound, self.epoch = bound, event["epoch"]
        self.demand_safe()


@cache
def meets(needs: str, tags: tuple[str, ...]) -> bool:
    """Tell whether an arm with these tags meets an expression."""
    words = re.sub(r"[\w.:-]+", lambda tag: str(tag[0] in tags), needs)
    python = words.replace("&", " and ").replace("|", " or ").replace("!", " not ")
    return bool(eval(python, {"__builtins__": {}}))
