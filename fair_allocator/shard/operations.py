"""Every way in which the state of a shard changes, one small class each.

A running shard makes an operation from an input, applies it, and writes it to the journal. A
restore reads the operation from the journal and applies it in the same way. So a restored shard
equals the running shard as of the same commit. In the journal, an operation is a JSON list: a
letter for its kind, the index of its pool in the entry's list of pools, and its fields. In the
docstrings below, ``pool`` is this index. One operation has no pool and no class:

    ["t", clock]   time passed, and everything that was due by then was done
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fair_allocator.core.among import Among
from fair_allocator.core.expecting import text_in, whole_in
from fair_allocator.core.guarantee import Change
from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import CERTAIN, Assignment, Reason, RewardOutcome
from fair_allocator.events.inputs import LATEST
from fair_allocator.events.wire import names, number, probability, quoted, quoted_arm, to_json
from fair_allocator.shard.asked import Asked
from fair_allocator.shard.table import Elapsed, PoolTable


class Operation:
    """One change of a pool."""

    def encode(self, place: str) -> str:
        """Return the operation as JSON; `place` is the index of its pool in the entry's list."""
        raise NotImplementedError

    def apply(self, table: PoolTable, name: str) -> object:
        """Carry out the operation on the pool of this name."""
        raise NotImplementedError


class Decided(Operation):
    """A request was decided.

    In a pool with plain requests the list is ``["a", pool, request, arm, epoch, forced,
    propensity]``. In other pools it is ``["g", pool, request, epoch, picks, named, left out, asked,
    instead of]``, and each pick is ``[arm, forced, propensity]``. `named` are the arms that could
    take the request. If `named` is null, all present arms could, except those in `left out`.
    `asked` is the request as it was read, if it may be decided again. `instead of` is the arm that
    was replaced, or "".
    """

    __slots__ = ("among", "asked", "instead_of", "left_out", "made", "named", "request_id")

    def __init__(
        self,
        made: Assignment,
        named: list[str] | None = None,
        left_out: Sequence[str] = (),
        among: Among | None = None,
        asked: Asked | None = None,
        instead_of: str = "",
        request_id: str = "",
    ) -> None:
        self.made = made
        self.request_id = request_id
        """The request's id as JSON, if the caller already has it; otherwise empty."""
        self.named = named
        self.left_out = left_out
        self.among = among
        self.asked = asked
        self.instead_of = instead_of

    def encode(self, place: str) -> str:
        made = self.made
        request_id, epoch = self.request_id or quoted(made.request_id), made.epoch
        if self.among is None:
            arm = quoted_arm(made.arm)
            return f'["a",{place},{request_id},{arm},{epoch},{_how(made)}'
        picks = [f"[{quoted_arm(made.arm)},{_how(made)}"]
        if made.others:
            picks += [f"[{quoted_arm(pick.arm)},{_how(pick)}" for pick in made.others]
        named = "null" if self.named is None else names(self.named)
        asked = "null" if self.asked is None else to_json(self.asked.plain())
        return (
            f'["g",{place},{request_id},{epoch},[{",".join(picks)}],{named},'
            f"{names(self.left_out)},{asked},{quoted(self.instead_of)}]"
        )

    def apply(self, table: PoolTable, name: str) -> None:
        table.count(name, self.made, self.among, self.asked, self.instead_of)


def _how(pick: Assignment) -> str:
    """Return the end of a JSON list, which says how an arm was chosen: ``forced,propensity]``."""
    forced, propensity = pick.reason == "fairness", pick.propensity
    if type(propensity) is float and propensity == 1.0:
        return "1,1.0]" if forced else "0,1.0]"
    return f"{'1' if forced else '0'},{probability(propensity)}]"


def _made(
    pool: Pool,
    request_id: str,
    arm: str,
    forced: int,
    propensity: float | None,
    others: tuple[Assignment, ...] = (),
) -> Assignment:
    """Return an assignment from its fields in the journal. Common values are shared objects."""
    if type(propensity) is float and propensity == 1.0:
        propensity = CERTAIN
    reason: Reason = "fairness" if forced else "learner"
    name, round = pool.columns.known(arm), pool.rounds + 1
    return Assignment(request_id, name, round, pool.epoch, reason, propensity, False, others)


def _follow_plain(table: PoolTable, name: str, fields: list[Any]) -> Operation:
    _, _, request_id, arm, epoch, forced, propensity = fields
    pool = table.touch(name).pool
    pool.follow_epoch(epoch)
    return Decided(_made(pool, request_id, arm, forced, propensity))


def _follow_any(table: PoolTable, name: str, fields: list[Any]) -> Operation:
    _, _, request_id, epoch, picks, named, left_out, asked, instead_of = fields
    pool = table.touch(name).pool
    pool.follow_epoch(epoch)
    parts: list[Assignment] = []
    for arm, forced, propensity in reversed(picks):
        others = tuple(reversed(parts)) if len(parts) == len(picks) - 1 else ()
        parts.append(_made(pool, request_id, arm, forced, propensity, others))
    record = None if asked is None else Asked.read(asked)
    among = pool.among(named, left_out)
    return Decided(parts[-1], named, left_out, among, record, instead_of)


class Rewarded(Operation):
    """A reward was counted: ``["r", pool, request, value]``, and the arm if it was named."""

    __slots__ = ("arm", "request_id", "value")

    def __init__(self, request_id: str, value: float, arm: str | None = None) -> None:
        self.request_id = request_id
        self.value = value
        self.arm = arm

    def encode(self, place: str) -> str:
        request_id, value, arm = quoted(self.request_id), number(self.value), self.arm
        if arm is None:
            return f'["r",{place},{request_id},{value}]'
        return f'["r",{place},{request_id},{value},{quoted_arm(arm)}]'

    def apply(self, table: PoolTable, name: str) -> RewardOutcome:
        return table.reward(name, self.request_id, self.value, self.arm)


class Declined(Operation):
    """An arm declined: ``["n", pool, request, arm]``."""

    __slots__ = ("arm", "request_id")

    def __init__(self, request_id: str, arm: str | None) -> None:
        self.request_id = request_id
        self.arm = arm

    def encode(self, place: str) -> str:
        return to_json(["n", int(place), self.request_id, self.arm])

    def apply(self, table: PoolTable, name: str) -> RewardOutcome:
        return table.decline(name, self.request_id, self.arm)


class ExpiredEarly(Operation):
    """An assignment expired early, because too many were open: ``["x", pool, request]``.

    The arm is added if only one arm's assignment expired.
    """

    __slots__ = ("arm", "request_id")

    def __init__(self, request_id: str, arm: str | None = None) -> None:
        self.request_id = request_id
        self.arm = arm

    def encode(self, place: str) -> str:
        return to_json(
            ["x", int(place), self.request_id, *([] if self.arm is None else [self.arm])]
        )

    def apply(self, table: PoolTable, name: str) -> None:
        table.expire(name, self.request_id, self.arm)


class Waited(Operation):
    """A request began to wait: ``["w", pool, asked, instead of]``."""

    __slots__ = ("asked", "instead_of")

    def __init__(self, asked: Asked, instead_of: str) -> None:
        self.asked = asked
        self.instead_of = instead_of

    def encode(self, place: str) -> str:
        return to_json(["w", int(place), self.asked.plain(), self.instead_of])

    def apply(self, table: PoolTable, name: str) -> None:
        table.wait(name, self.asked, self.instead_of)


class GivenUp(Operation):
    """The pool gave up a request: ``["q", pool, request, instead of]``."""

    __slots__ = ("instead_of", "request_id")

    def __init__(self, request_id: str, instead_of: str) -> None:
        self.request_id = request_id
        self.instead_of = instead_of

    def encode(self, place: str) -> str:
        return to_json(["q", int(place), self.request_id, self.instead_of])

    def apply(self, table: PoolTable, name: str) -> None:
        table.give_up(name, self.request_id, self.instead_of)


class Configured(Operation):
    """A pool was made or changed: ``["p", pool, settings, on demand, fingerprint]``."""

    __slots__ = ("fingerprint", "on_demand", "settings")

    def __init__(self, settings: dict[str, Any], on_demand: bool, fingerprint: str) -> None:
        self.settings = settings
        self.on_demand = on_demand
        self.fingerprint = fingerprint

    def encode(self, place: str) -> str:
        return to_json(["p", int(place), self.settings, self.on_demand, self.fingerprint])

    def apply(self, table: PoolTable, name: str) -> Elapsed:
        table.configure(name, self.settings, self.on_demand, self.fingerprint)
        return table.catch_up(name)


class ArmsSet(Operation):
    """Arms were added or changed: ``["m", pool, settings by arm]``."""

    __slots__ = ("arms",)

    def __init__(self, arms: dict[str, dict[str, Any]]) -> None:
        self.arms = arms

    def encode(self, place: str) -> str:
        return to_json(["m", int(place), self.arms])

    def apply(self, table: PoolTable, name: str) -> Change:
        return table.set_arms(name, self.arms)


class ArmsRemoved(Operation):
    """Arms left: ``["l", pool, arms]``."""

    __slots__ = ("arms",)

    def __init__(self, arms: list[str]) -> None:
        self.arms = arms

    def encode(self, place: str) -> str:
        return to_json(["l", int(place), self.arms])

    def apply(self, table: PoolTable, name: str) -> Change:
        return table.remove_arms(name, self.arms)


class Slept(Operation):
    """Arms went to sleep or woke up: ``["y", pool, arms, asleep]``."""

    __slots__ = ("arms", "asleep")

    def __init__(self, arms: list[str], asleep: bool) -> None:
        self.arms = arms
        self.asleep = asleep

    def encode(self, place: str) -> str:
        return to_json(["y", int(place), self.arms, self.asleep])

    def apply(self, table: PoolTable, name: str) -> None:
        table.let_sleep(name, self.arms, self.asleep)


class Paused(Operation):
    """A pool was paused or resumed: ``["z", pool, paused]``."""

    __slots__ = ("paused",)

    def __init__(self, paused: bool) -> None:
        self.paused = paused

    def encode(self, place: str) -> str:
        return to_json(["z", int(place), self.paused])

    def apply(self, table: PoolTable, name: str) -> None:
        table.pause(name, self.paused)


class Stood(Operation):
    """A pool's standing was published at a position in the requests: ``["s", pool, position]``."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def encode(self, place: str) -> str:
        return f'["s",{place},{self.position}]'

    def apply(self, table: PoolTable, name: str) -> None:
        table.stand(name, self.position)


class Removed(Operation):
    """A pool was removed: ``["d", pool]``."""

    def encode(self, place: str) -> str:
        return f'["d",{place}]'

    def apply(self, table: PoolTable, name: str) -> None:
        table.remove(name)


class TakenUp(Operation):
    """The configuration file's settings of a pool were applied: ``["f", pool, fingerprint]``."""

    __slots__ = ("fingerprint",)

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def encode(self, place: str) -> str:
        return to_json(["f", int(place), self.fingerprint])

    def apply(self, table: PoolTable, name: str) -> None:
        table.applied[name] = self.fingerprint


class SignatureUsed(Operation):
    """A signed control came, for this pool: ``["k", pool, key, signed at]``.

    It belongs to the whole shard, because a pool that was removed forgets everything.
    """

    __slots__ = ("key", "signed_at")

    def __init__(self, key: str, signed_at: int) -> None:
        self.key = text_in("key", key)
        self.signed_at = whole_in("signed_at", signed_at, 1, LATEST)

    def encode(self, place: str) -> str:
        return to_json(["k", int(place), self.key, self.signed_at])

    def apply(self, table: PoolTable, name: str) -> None:  # noqa: ARG002
        table.signed_at[self.key] = self.signed_at


OF_THE_SHARD: Final = frozenset("fk")
"""The operations that change no pool, but what the shard itself keeps."""

_Decode = Callable[..., Operation]

_DECODED: Final[dict[str, _Decode]] = {
    "r": Rewarded,
    "n": Declined,
    "x": ExpiredEarly,
    "w": lambda asked, instead_of: Waited(Asked.read(asked), instead_of),
    "q": GivenUp,
    "p": Configured,
    "m": ArmsSet,
    "l": ArmsRemoved,
    "y": Slept,
    "z": Paused,
    "s": Stood,
    "d": Removed,
    "f": TakenUp,
    "k": SignatureUsed,
}


def decode(fields: list[Any], table: PoolTable, name: str) -> Operation:
    """Return the operation on a pool that the journal stores as `fields`.

    If the operation is a decision, its pool must be in `table`, because the pool gives the round
    and the arms.
    """
    kind: str = fields[0]
    if kind == "a":
        return _follow_plain(table, name, fields)
    if kind == "r" and len(fields) == 4:  # a reward without an arm, the most common one
        return Rewarded(fields[2], fields[3])
    if kind == "g":
        return _follow_any(table, name, fields)
    if kind not in _DECODED:
        raise ValueError(f"no operation {fields!r}")
    return _DECODED[kind](*fields[2:])
