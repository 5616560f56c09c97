"""Controls with values that nobody would send: what is accepted is served, and can be restored."""

import json
from collections import Counter
from random import Random
from typing import Any, Final

from fair_allocator.audit.replay import replay
from fair_allocator.shard.hosted import HostedPool
from tests.fuzz.corpus import corpus, mutated
from tests.fuzz.events import ACTIONS, ARMS, CONFIGURED
from tests.support.senders import senders, signer
from tests.support.served import START, Served, houses

BATCH: Final = 20
LIFE: Final = 200
"""Controls to one log; then it is audited, and the next begins."""

SENDERS: Final = ("alice", "bert")

NUMBERS: Final[list[Any]] = [
    *(0, 1, -1, 2, 3, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 10**300),
    *(0.1, 0.5, 1.0, 1.5, -0.0, 5e-324, 1e-300, 1e-9, 1e308, True, False, None),
    *("0", "1", "1/2", "1/3", "0.1", "1e-5", "1e-9999999", "1e9999999", "1/0", "-1/2", "+1/2"),
    *("1/999983", "999999/1000000", "1/" + "9" * 4_000, "0." + "3" * 4_000, " 1/2 ", "1_0/2_0"),
    *("٣/٤", "0x1", "nan", "inf", "", "half", [], {}, [1], {"quota": "1/2"}),
]

LIKELY: Final[dict[str, list[Any]]] = {
    "tolerance": [0, 1, 0.5, "7/2", 10**6, 10**9, 10**30],
    "bank": [1, 2, 2**31, 2**63, 10**30, 10**40, 10**300, None],
    "max_open": [1, 2, 2**31, 2**63, 10**30, 10**40, 10**300, None],
    "rate": [1, 3, 10**9, None],
    "burst": [1, 5, 10**9, None],
    "reward_timeout": [1, 5e-324, 1e-300, 0.001, 60.5, 1e300, 1e308, 10**300, None],
    "wait_timeout": [1, 5e-324, 1e-300, 0.001, 60.5, 1e300, 1e308, 10**300, None],
    "default_reward": [0, 1, 0.5, -0.0, 5e-324, None],
}
"""Values of the right kind, up to absurd ones."""

NAMES: Final = [
    *("a", "arm-1", "arm-2", "", " ", "\x00", "é" * 256, "\U0001f600" * 256, "x" * 257, "\n"),
    *("\u202elive", "__proto__", "a/b", "p~0of4~1", "\x1b[2J", "'", '"', "\u2028", "\ufeff"),
]


def play_controls(seed: int, inputs: int) -> Counter[str]:
    """Send controls to services; after each turn the state must equal a restored one."""
    rng, outcomes = Random(f"controls {seed}"), Counter[str]()
    kept = corpus("controls")
    for begin in range(0, inputs, LIFE):
        with houses() as build:
            served: Served = build(
                CONFIGURED, waiting_per_pool=10, pending_per_pool=30, senders=senders(*SENDERS)
            )
            first = kept if begin == 0 else []
            values = first + [_control(rng, kept) for _ in range(min(LIFE, inputs - begin))]
            for number in range(0, len(values), BATCH):
                some = values[number : number + BATCH]
                now = START / 1000 + served.now
                signed = [
                    _signed(value, served, now + place / 1000, rng)
                    for place, value in enumerate(some)
                ]
                _turn(served, signed, number)
            _check(served)
            _check_senders(served)
            outcomes += Counter(
                letter.reason.value for letter in served.letters() if letter.topic == "controls"
            )
            outcomes["obeyed"] += len(values)
    outcomes["obeyed"] -= sum(outcomes.values()) - outcomes["obeyed"]
    return outcomes


def _turn(served: Served, values: list[bytes], number: int) -> None:
    for value in values:
        served.send("controls", value, _key(value))
    for pool in CONFIGURED:
        served.request(f"{number}", pool)
        served.request(f"{number} needs", pool, needs="french & !trainee")
        served.reward(f"{number}", 0.5, pool)
    served.turn(served.now + 7)


def _check(served: Served) -> None:
    """Every state can be stored, a restart goes on, and deciding again gives the same."""
    for hosted in served.shard.table.pools.values():
        state = json.loads(json.dumps(hosted.state()))
        assert json.loads(json.dumps(HostedPool.from_state(state, 0).state())) == state
        bound = hosted.pool.guarantee.bound
        assert bound is None or hosted.pool.violation() <= bound, "the promise is broken"
    served.restart()
    pools = {
        name: (pool.settings, pool.fingerprint) for name, pool in served.settings.pools.items()
    }
    result = replay(served.client, served.settings.shard, pools)
    assert result.ok, result.difference


def _signed(value: bytes, served: Served, now: float, rng: Random) -> bytes:
    """Return a control, now and then signed, and then perhaps damaged or a copy of another one."""
    if rng.random() < 0.7:
        return value
    name, key = rng.choice(SENDERS), rng.choice(SENDERS)
    try:
        fields = {**json.loads(value), "by": name}
        control = signer(name, lambda: now, key=key).sign(fields)
    except (ValueError, TypeError, RecursionError):
        return value
    control["signed_at"] += rng.choice((0, 0, 0, 1, -5))
    sent = served.client.end_offset("controls", 0)
    if sent and rng.random() < 0.2:
        offset = rng.randrange(sent)
        (copy,) = served.client.read("controls", 0, offset, offset + 1)
        return copy.value or b""
    return json.dumps(control).encode()


def _check_senders(served: Served) -> None:
    """Whose control is verified signed it, and no signature counts twice."""
    check, seen = senders(*SENDERS), set()
    for offset, by in {
        (event["folded"]["controls"] - 1, event["by"])
        for event in served.out()
        if event.get("verified")
    }:
        (record,) = served.client.read("controls", 0, offset, offset + 1)
        control = json.loads(record.value or b"")
        assert check.signer_of(control, record.timestamp) == by == control["by"]
        assert control["signature"] not in seen
        seen.add(control["signature"])


def _key(value: bytes) -> bytes:
    """Return the pool that a control names, so that it is not refused for its key."""
    try:
        return str(json.loads(value)["pool"]).encode()
    except (ValueError, LookupError, TypeError, RecursionError):
        return b"any"


def _control(rng: Random, kept: list[bytes]) -> bytes:
    if rng.random() < 0.2:
        return mutated(rng.choice(kept), kept, rng)
    event: dict[str, Any] = {"pool": rng.choice([*CONFIGURED, *NAMES[:12]])}
    (action,) = rng.choices(tuple(ACTIONS), tuple(ACTIONS.values()))
    if rng.random() < 0.5:
        action = "configure"
    event["action"] = action
    if action == "configure":
        event |= rng.choice((CONFIGURED["any"], CONFIGURED["again"], {}))
        for _ in range(rng.choice((1, 1, 2, 3))):
            event |= _setting(rng)
    elif action == "set-arm":
        event["arms"] = {
            _name(rng): {
                rng.choice(("quota", "cap", "max_open", "tags", "more")): rng.choice(NUMBERS)
            }
            for _ in range(rng.randint(1, 3))
        }
    elif action != "pause":
        event["arms"] = [_name(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.1:
        event["by"] = _name(rng)
    return json.dumps(event).encode()


def _setting(rng: Random) -> dict[str, Any]:
    name = rng.choice(
        (
            *("arms", "arms", "tolerance", "rule", "learner", "requests", "bank", "caps", "tags"),
            *("max_open", "reward_timeout", "default_reward", "when_busy", "wait_timeout"),
            *("reassign", "rate", "burst"),
        )
    )
    if name in LIKELY and rng.random() < 0.6:
        return {name: rng.choice(LIKELY[name])}
    if name in ("arms", "caps", "max_open") and rng.random() < 0.8:
        return {name: {_name(rng): rng.choice(NUMBERS) for _ in range(rng.randint(0, 4))}}
    if name == "tags" and rng.random() < 0.8:
        return {name: {_name(rng): [rng.choice(("french", _name(rng)))] for _ in range(2)}}
    if name == "learner" and rng.random() < 0.8:
        learner = rng.choice(("ucb1", "epsilon-greedy", "exp3", "thompson", "kl-ucb", "lfg"))
        return {name: {"name": learner, rng.choice(("epsilon", "gamma", "eta")): _number(rng)}}
    if name in ("rule", "requests", "when_busy", "reassign") and rng.random() < 0.8:
        said = ("auto", "max-deficit", "earliest-deadline", "none", "plain", "any", "wait", True)
        return {name: rng.choice(said)}
    return {name: _number(rng)}


def _number(rng: Random) -> Any:
    return rng.choice(NUMBERS)


def _name(rng: Random) -> str:
    return rng.choice(ARMS) if rng.random() < 0.5 else rng.choice(NAMES)
