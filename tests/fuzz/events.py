"""Random events of every kind, and ways to damage them."""

import json
from collections import deque
from random import Random
from typing import Any, Final

ARMS: Final = [f"arm-{number}" for number in range(8)]
POOLS: Final = ["plain", "any", "again", "strict", "rated"]
TAGS: Final = ["french", "german", "trainee"]

CONFIGURED: Final[dict[str, dict[str, Any]]] = {
    "plain": {"arms": dict.fromkeys(ARMS, "1/10"), "tolerance": 1},
    "any": {
        "arms": dict.fromkeys(ARMS, "1/10"),
        "requests": "any",
        "max_open": 2,
        "bank": 3,
        "caps": {ARMS[0]: "1/2"},
        "tags": {arm: [TAGS[place % 3]] for place, arm in enumerate(ARMS)},
        "reward_timeout": 30,
        "wait_timeout": 60,
    },
    "again": {
        "arms": dict.fromkeys(ARMS, "1/16"),
        "requests": "any",
        "max_open": 1,
        "reassign": True,
        "reward_timeout": 20,
        "learner": "uniform",
    },
    "strict": {"arms": {"left": "1/2", "right": "1/2"}, "requests": "any", "when_busy": "refuse"},
    "rated": {"arms": dict.fromkeys(ARMS, "1/10"), "rate": 3, "burst": 5},
}

ACTIONS: Final = {
    "pause": 2,
    "resume": 10,
    "sleep": 10,
    "wake": 20,
    "set-arm": 10,
    "remove-arm": 1,
    "configure": 8,
    "remove": 1,
}
"""The actions of controls, and how often each comes."""

ODD: Final[list[Any]] = [
    *(
        None,
        True,
        -1,
        0,
        1,
        2,
        1.5,
        -0.0,
        1e308,
        10**30,
        "",
        " ",
        "1/3",
        "none",
        "\ud800",
        "é" * 300,
    ),
    *(
        [],
        {},
        [[]],
        ["arm-1", "arm-1"],
        {"arm-1": {}},
        [None],
        {"quota": "2"},
        "french & !",
        "!" * 40,
    ),
]
"""Values to put where others belong."""


class Events:
    """Makes events; what is sent depends on the seed only."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._asked = 0
        self._recent: dict[str, deque[str]] = {pool: deque(["r0"], 20) for pool in POOLS}

    def record(self) -> tuple[str, bytes, bytes | None]:
        """Return a topic, a key and a value, half of them damaged."""
        rng = self._rng
        topic, event = self._event()
        key = event.get("pool", "any").encode("utf-8", "surrogatepass")
        if rng.random() < 0.5:
            return topic, key, json.dumps(event).encode()
        if rng.random() < 0.6:
            event = self._spoiled(event)
            return topic, key, json.dumps(event).encode("utf-8", "surrogatepass")
        value = self._damaged(json.dumps(event).encode())
        return topic, key if rng.random() < 0.9 else b"other", value

    def _event(self) -> tuple[str, dict[str, Any]]:
        rng, pool = self._rng, self._rng.choice(POOLS)
        kind = rng.random()
        if kind < 0.5:
            return "requests", self._request(pool)
        identity = {"pool": pool, "request_id": rng.choice(self._recent[pool])}
        if rng.random() < 0.1:
            identity["arm"] = rng.choice(ARMS)
        if kind < 0.8:
            return "rewards", {**identity, "value": rng.random()}
        if kind < 0.92:
            return "rewards", {**identity, "type": "declined"}
        return "controls", self._control(pool)

    def _request(self, pool: str) -> dict[str, Any]:
        rng = self._rng
        self._asked += rng.random() < 0.95
        event: dict[str, Any] = {"pool": pool, "request_id": f"r{self._asked}"}
        self._recent[pool].append(event["request_id"])
        kind = 1.0 if pool == "plain" and rng.random() < 0.9 else rng.random()
        if kind < 0.3:
            event["eligible"] = rng.sample(ARMS, rng.randint(1, 6))
        elif kind < 0.45:
            event["needs"] = rng.choice(["french", "!trainee", "french | (german & !trainee)"])
        if kind < 1.0 and rng.random() < 0.3:
            event["slots"] = rng.randint(1, 4)
        return event

    def _control(self, pool: str) -> dict[str, Any]:
        rng = self._rng
        event: dict[str, Any] = {"pool": pool}
        (action,) = rng.choices(tuple(ACTIONS), tuple(ACTIONS.values()))
        event["action"] = action
        if action in ("sleep", "wake", "remove-arm"):
            event["arms"] = rng.sample(ARMS, rng.randint(1, 3))
        elif action == "set-arm":
            event["arms"] = {
                rng.choice(ARMS): rng.choice(
                    [{"quota": "1/20"}, {"cap": "1/2"}, {"cap": None}, {"max_open": 3}, {}]
                )
            }
        elif action == "configure":
            event |= CONFIGURED[pool] if rng.random() < 0.8 else {"tolerance": rng.randint(0, 3)}
        return event

    def _spoiled(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event with a field that is missing, foreign, or of another kind."""
        rng, event = self._rng, dict(event)
        field = rng.choice([*event, "slot", "eligible", "slots", "needs", "arm", "tags", "colour"])
        if rng.random() < 0.3:
            event.pop(field, None)
        else:
            event[field] = rng.choice(ODD)
        return event

    def _damaged(self, value: bytes) -> bytes | None:
        """Return bytes with something cut out, put in or flipped."""
        rng, at = self._rng, self._rng.randrange(len(value))
        match rng.randrange(6):
            case 0:
                return value[:at]
            case 1:
                return value[:at] + bytes([rng.randrange(256)]) + value[at:]
            case 2:
                return value[:at] + bytes([value[at] ^ (1 << rng.randrange(8))]) + value[at + 1 :]
            case 3:
                return value[: rng.randrange(at + 1)] + value[at:]
            case 4:
                return b"[" * rng.randrange(1, 5_000) + value
            case _:
                return None
