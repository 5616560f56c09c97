"""Checks of a pool's state, made before the pool is built from it.

A user may have written the state by hand. So everything is checked: types, ranges, and whether the
numbers agree with each other. The last check is `check_promise`, because it needs entitlements that
are already checked. It checks that the pool can keep its promise from this state.

The time of the checks grows linearly with the size of the state. Each error message names the key
and the value that is wrong.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import Any, Final, NoReturn

from fair_allocator.core.admission import ATTEMPTS, PROMPT
from fair_allocator.core.arms import MAX_UNIT
from fair_allocator.core.errors import FairAllocatorError, InvalidState, shown
from fair_allocator.core.expecting import list_in, mapping_in, refuse, text_in, whole_in
from fair_allocator.core.forcing import RULES
from fair_allocator.core.general import MAX_SLOTS
from fair_allocator.core.quotas import (
    MAX_DENOMINATOR,
    parse_number,
    parse_quota,
    parse_tolerance,
)
from fair_allocator.core.requests import RewardOutcome
from fair_allocator.core.safety import Line, is_unsafe

MOST: Final = 10**18
"""The largest number of rounds of a pool, and of everything that is counted in rounds."""

_LATER: Final = frozenset(outcome.value for outcome in RewardOutcome)
_REASONS: Final = ("fairness", "learner")
_COUNTS: Final = ("joined", "pulls", "forced", "observed", "pending")
_LINES: Final = ("base", "slope", "unit", "missed", "last")

_SINCE_2: Final = {
    "": ("clock", "gap", "presence", "caps"),
    "arms": ("missed", "last", "away"),
    "fairness": ("requests", "bank", "pause"),
}
"""The keys that are missing in a state of version 1, by the mapping that they belong to."""


def check_state(state: Mapping[str, Any]) -> None:
    """Refuse a state whose numbers cannot be those of a pool."""
    if state["version"] > 1:
        _require_keys(state)
    rounds = whole_in("rounds", state["rounds"], 0, MOST)
    whole_in("clock", state.get("clock", rounds), 0, rounds * MAX_SLOTS)
    text_in("name", state["name"])
    if type(state["seed"]) is not int:
        refuse("seed", "a whole number", state["seed"])
    whole_in("peak", state["peak"], -MOST, MOST)
    whole_in("violated_epochs", state["violated_epochs"], 0, MOST)
    whole_in("gap", state.get("gap", 0), 0, rounds * MAX_SLOTS)
    text_in("learner.name", mapping_in("learner", state["learner"])["name"])
    arms = mapping_in("arms", state["arms"])
    names = _check_names(arms["names"])
    _check_columns(arms, len(names), rounds, state.get("clock", rounds))
    _check_departed(state, arms, rounds)
    fairness = mapping_in("fairness", state["fairness"])
    _check_fairness(fairness, names)
    _check_caps(state.get("caps") or [], arms, state, rounds)
    answers = _Answers(arms, rounds, fairness["epoch"])
    answers.check(mapping_in("requests", state["requests"]))
    for arm, (pending, waited) in enumerate(zip(arms["pending"], answers.waited, strict=True)):
        if pending != waited:
            _refuse_arm(arms, "pending", arm, f"{waited:,}, its open requests")
    _check_presence(state.get("presence"), fairness.get("requests", "plain"), arms, names)


def _require_keys(state: Mapping[str, Any]) -> None:
    """Refuse a state of version 2 or higher in which a key of `_SINCE_2` is missing."""
    for place, keys in _SINCE_2.items():
        found = mapping_in(place, state[place]) if place else state
        for key in keys:
            if key not in found:
                raise InvalidState(f"{place + '.' if place else ''}{key} is missing")


def check_promise(
    lines: Sequence[Line], in_force: str, wanted: str, bound: int, allowed: int
) -> None:
    """Refuse a state from which the pool cannot keep its promise, or that no pool can reach.

    `in_force` and `wanted` are names of rules. `bound` is the bound in force, and `allowed` is the
    bound that the configured tolerance asks for. Do not call this for states of older releases. In
    those releases changes came into force at other moments, so their states can fail this check.
    """
    if in_force != wanted and (in_force == "max-deficit" or "none" in (in_force, wanted)):
        refuse("fairness.rule", f"what the configuration gives, {wanted}", in_force)
    if in_force == "none":
        return
    # While the bound is above `allowed`, a pool lowers it as soon as that is safe. A large pool
    # tests this only every `since` requests, and an arm gets at most one pull per request. So if
    # every arm has more than `since` pulls to spare, the pool would already have lowered the bound:
    # no pool reaches this state.
    since = len(lines) * ATTEMPTS // 64 if len(lines) > PROMPT else 0
    furthest = max(-(-ahead // unit) for ahead, _, unit in lines)
    if bound > allowed and furthest < -since:
        refuse("fairness.terms", f"a bound near {allowed:,}, as no arm is owed more", bound)
    if in_force == "max-deficit":
        _check_staircase(lines)
    elif is_unsafe(lines):
        raise InvalidState(
            "arms: more pulls fall due than there are slots, so the pool cannot keep the bound "
            f"{bound:,} in fairness.terms"
        )


def _check_staircase(lines: Sequence[Line]) -> None:
    """Refuse a state that the rule max-deficit cannot produce (docs/theory.md, theorem 3)."""
    owed = sorted((Fraction(ahead, unit) for ahead, _, unit in lines if ahead > 0), reverse=True)
    count = sum(slope > 0 for _, slope, _ in lines)
    for place, ahead in enumerate(owed):
        if ahead * count >= count - place:
            raise InvalidState(
                f"arms: {place + 1} of {count} arms are owed more than they can be under rule "
                "max-deficit"
            )


# -- the arms -----------------------------------------------------------------------------------


def _check_names(names: Any) -> list[str]:
    list_in("arms.names", names)
    if not names:
        refuse("arms.names", "at least one arm", names)
    for name in names:
        if not isinstance(name, str) or not name:
            refuse("arms.names", "non-empty texts", name)
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        refuse("arms.names", "named once each", twice)
    arms: list[str] = names
    return arms


def _check_columns(arms: Mapping[str, Any], count: int, rounds: int, clock: int) -> None:
    for name in (*_COUNTS, *_LINES):
        if name in arms or name not in ("missed", "last"):
            _check_column(name, arms[name], count)
    list_in("arms.total", arms["total"], count)
    missed, lasts = arms.get("missed", [0] * count), arms.get("last", [0] * count)
    away = _check_away(arms.get("away", []), count, rounds)
    columns = [arms[name] for name in (*_COUNTS, "total", *_LINES[:3])]
    for arm, each in enumerate(zip(*columns, missed, lasts, strict=True)):
        joined, pulls, forced, observed, pending, total, base, slope, unit, late, last = each
        played = rounds + 1 - joined
        if not 0 <= played <= rounds:
            _refuse_arm(arms, "joined", arm, f"from 1 to {rounds + 1:,}")
        if not 0 <= pulls <= played:
            _refuse_arm(arms, "pulls", arm, f"from 0 to {played:,}, the rounds since it joined")
        if not 0 <= forced <= pulls:
            _refuse_arm(arms, "forced", arm, f"from 0 to its {pulls:,} pulls")
        if observed < 0 or pending < 0 or observed + pending > pulls:
            _refuse_arm(arms, "observed", arm, f"at least 0, with pending at most {pulls:,}")
        if type(total) not in (int, float) or not 0 <= total <= observed:
            _refuse_arm(arms, "total", arm, f"from 0 to {observed:,}, its rewards")
        if not 1 <= unit <= MAX_UNIT:
            _refuse_arm(arms, "unit", arm, f"from 1 to {MAX_UNIT:,}")
        if not 0 <= slope <= unit or (
            unit > MAX_DENOMINATOR and unit // gcd(slope, unit) > MAX_DENOMINATOR
        ):
            _refuse_arm(arms, "slope", arm, "from 0 to its unit, so that it is a quota")
        own = away.get(arm, clock - late)
        if not 0 <= own <= rounds * MAX_SLOTS:
            _refuse_arm(arms, "missed", arm, "at most the pool's clock")
        if last > own:
            _refuse_arm(arms, "last", arm, f"at most {own:,}, what its clock shows")
        if not 0 <= base + slope * own <= unit * played:
            _refuse_arm(arms, "base", arm, f"an entitlement from 0 to {played:,}")


def _check_column(name: str, column: Any, count: int) -> None:
    list_in(f"arms.{name}", column, count)
    if set(map(type, column)) - {int}:
        wrong = next(value for value in column if type(value) is not int)
        refuse(f"arms.{name}", "whole numbers", wrong)


def _check_away(away: Any, count: int, rounds: int) -> dict[int, int]:
    """Check the arms that are away; return for each of them where its own clock stopped."""
    clocks: dict[int, int] = {}
    for pair in list_in("arms.away", away):
        arm, own = list_in("arms.away", pair, 2)
        if whole_in("arms.away", arm, 0, count - 1) in clocks:
            refuse("arms.away", "each arm once", arm)
        clocks[arm] = whole_in("arms.away", own, 0, rounds * MAX_SLOTS)
    return clocks


def _check_departed(state: Mapping[str, Any], arms: Mapping[str, Any], rounds: int) -> None:
    """Check the sums over the arms that left.

    Every pull must belong to an arm of the pool or to them.
    """
    sums = list_in("departed", state["departed"])
    if len(sums) != 4 and (len(sums) != 3 or state["version"] > 1):
        refuse("departed", "a list of 4", sums)
    given = whole_in("pulls", state.get("pulls", rounds), rounds, rounds * MAX_SLOTS)
    here = sum(arms["pulls"])
    gone = whole_in("departed", sums[3] if len(sums) > 3 else given - here, 0, MOST)
    if here + gone != given:
        refuse("arms.pulls", f"{given - gone:,} in sum, as pulls, rounds and departed say", here)
    whole_in("departed", sums[0], 0, gone)
    observed = whole_in("departed", sums[1], 0, gone)
    if type(sums[2]) not in (int, float) or not 0 <= sums[2] <= observed:
        refuse("departed", f"a sum of rewards from 0 to {observed:,}", sums[2])


# -- what is in force and wanted ----------------------------------------------------------------


def _check_fairness(fairness: Mapping[str, Any], names: list[str]) -> None:
    try:
        tolerance = parse_tolerance(fairness["tolerance"])
    except FairAllocatorError as error:
        raise InvalidState(f"fairness.{error}") from None
    if fairness["rule"] not in (*RULES, "none"):
        refuse("fairness.rule", f"one of {', '.join(RULES)}, none", fairness["rule"])
    whole_in("fairness.epoch", fairness["epoch"], 1, MOST)
    wanted: set[int] = set()
    for pair in list_in("fairness.wanted", fairness["wanted"]):
        arm, quota = list_in("fairness.wanted", pair, 2)
        if whole_in("fairness.wanted", arm, 0, len(names) - 1) in wanted:
            refuse("fairness.wanted", "each arm once", arm)
        wanted.add(arm)
        try:
            parse_quota(quota, names[arm])
        except FairAllocatorError as error:
            raise InvalidState(f"fairness.wanted: {error}") from None
    allowed, bound = list_in("fairness.terms", fairness["terms"][:2], 2)  # 0.1 wrote a third number
    floor = tolerance.numerator // tolerance.denominator
    whole_in("fairness.terms", allowed, floor, floor)
    whole_in("fairness.terms", bound, floor, MOST)
    for bank in list_in("fairness.bank", fairness.get("bank", [None, None]), 2):
        if bank is not None:
            whole_in("fairness.bank", bank, 1, MAX_UNIT)
    whole_in("fairness.pause", fairness.get("pause", 0), 0, len(names) * ATTEMPTS)


def _check_caps(caps: Any, arms: Mapping[str, Any], state: Mapping[str, Any], rounds: int) -> None:
    seen: set[int] = set()
    away = dict(arms.get("away", []))
    for cap in list_in("caps", caps):
        arm, share, base, slope, unit = list_in("caps", cap, 5)
        if whole_in("caps", arm, 0, len(arms["names"]) - 1) in seen:
            refuse("caps", "each arm once", arm)
        seen.add(arm)
        try:
            most = parse_number(share, "caps")
        except FairAllocatorError as error:
            raise InvalidState(str(error)) from None
        if not Fraction(arms["slope"][arm], arms["unit"][arm]) <= most < 1 or not most:
            refuse("caps", "shares from the arm's quota to below 1", share)
        whole_in("caps", unit, 1, MAX_UNIT)
        whole_in("caps", slope, 0, unit)
        if Fraction(slope, unit) != most:
            refuse("caps", f"a slope of {most} of its unit", slope)
        own = away.get(arm, state.get("clock", rounds) - arms.get("missed", [0] * (arm + 1))[arm])
        whole_in("caps", base, -slope * own, unit * 2 * (rounds + 1) - slope * own)


def _check_presence(
    presence: Any, requests: Any, arms: Mapping[str, Any], names: list[str]
) -> None:
    """Check which arms are present. In a pool with plain requests, all arms must be present."""
    away = dict(arms.get("away", []))
    if requests == "plain":
        if presence is not None:
            refuse("presence", "None in a pool with plain requests", presence)
        if away or any(arms.get("missed", ())):
            refuse("arms.missed", "0 in a pool with plain requests", arms.get("missed"))
        return
    here = mapping_in("presence", presence)
    asleep = _check_members("presence.asleep", here["asleep"], len(names))
    _check_members("presence.moved", here.get("moved", []), len(names))
    most, limits = here["max_open"], {}
    if isinstance(most, Mapping):
        index = {name: arm for arm, name in enumerate(names)}
        for name, limit in most.items():
            if name not in index:
                refuse("presence.max_open", "of arms of the pool", name)
            limits[index[name]] = whole_in("presence.max_open", limit, 1, MAX_UNIT)
    elif most is not None:
        limits = dict.fromkeys(range(len(names)), whole_in("presence.max_open", most, 1, MAX_UNIT))
    busy = {arm for arm, limit in limits.items() if arms["pending"][arm] >= limit}
    if away.keys() != asleep | busy:
        wrong = min(away.keys() ^ (asleep | busy))
        refuse("arms.away", "the arms that are asleep or busy", names[wrong])


def _check_members(key: str, some: Any, count: int) -> set[int]:
    found = {whole_in(key, arm, 0, count - 1) for arm in list_in(key, some)}
    if len(found) < len(some):
        refuse(key, "each arm once", some)
    return found


# -- requests -----------------------------------------------------------------------------------


class _Answers:
    """Checks requests and answers, and counts the pending rewards of each arm."""

    def __init__(self, arms: Mapping[str, Any], rounds: int, epoch: int) -> None:
        self.waited = [0] * len(arms["names"])
        self._index = {name: arm for arm, name in enumerate(arms["names"])}
        self._joined = arms["joined"]
        self._rounds = rounds
        self._epoch = epoch
        self._seen: set[str] = set()

    def check(self, requests: Mapping[str, Any]) -> None:
        whole_in("requests.remember", requests["remember"], 0, MAX_UNIT)
        held = mapping_in("requests.held", requests.get("held") or {})
        for count in held.values():
            whole_in("requests.held", count, 1, MAX_SLOTS)
        for fields in list_in("requests.open", requests["open"]):
            if not self._is_open("requests.open", fields) and fields[0] not in held:
                refuse("requests.open", "requests that wait for a reward or another arm", fields)
        if not held.keys() <= self._seen:
            refuse("requests.held", "open requests", list(held)[:3])
        for fields in list_in("requests.closed", requests["closed"]):
            if self._is_open("requests.closed", fields):
                refuse("requests.closed", "requests that wait for no reward", fields)

    def _is_open(self, key: str, fields: Any) -> bool:
        """Check a request and its picks, one for each arm it got; tell if a reward is pending."""
        if type(fields) is not list or not 6 <= len(fields) <= 8 or type(fields[0]) is not str:
            refuse(key, "a list with an id, an arm and how it was given", fields)
        before = len(self._seen)
        self._seen.add(fields[0])
        if len(self._seen) == before:
            refuse(key, "requests with different ids", fields[0])
        waits = self._check_pick(key, *fields[1:7])
        if len(fields) > 7:
            for other in list_in(key, fields[7]):
                if type(other) is not list or not 5 <= len(other) <= 6:
                    refuse(key, "other arms, each with how it was given", other)
                waits = self._check_pick(key, *other) or waits
        return waits

    def _check_pick(
        self,
        key: str,
        arm: Any,
        round: Any,
        epoch: Any,
        reason: Any,
        propensity: Any,
        later: Any = None,
    ) -> bool:
        """Check one pick; tell whether its reward is pending."""
        if type(arm) is not str or reason not in _REASONS:
            refuse(key, "an arm's name, a round, an epoch and a reason", [arm, reason])
        if type(round) is not int or not 1 <= round <= self._rounds:
            refuse(key, f"rounds from 1 to {self._rounds:,}", round)
        if type(epoch) is not int or not 1 <= epoch <= self._epoch:
            refuse(key, f"epochs from 1 to {self._epoch:,}", epoch)
        if propensity is not None and (
            type(propensity) not in (float, int) or not 0 <= propensity <= 1
        ):
            refuse(key, "propensities from 0 to 1", propensity)
        if later is not None:
            if later not in _LATER:
                refuse(key, "the outcome of a later reward", later)
            return False
        index = self._index.get(arm)
        if index is not None and self._joined[index] <= round:
            self.waited[index] += 1
        return True


def _refuse_arm(arms: Mapping[str, Any], column: str, arm: int, expected: str) -> NoReturn:
    name = shown(arms["names"][arm])
    refuse(f"arms.{column} of {name}", expected, arms[column][arm] if column in arms else None)
