"""Seeded inputs for a schedule: everything a service may be sent, in a confusing order."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from fair_allocator.core.learners import known_learners
from fair_allocator.log.records import Headers, Incoming
from fair_allocator.service import FilePool, ServiceSettings
from fair_allocator.shard import ShardSettings
from tests.support.verifier import Rules

START: Final = 1_700_000_000_000
FUTURE: Final = START + 10**11
"""Far beyond the clock's skew whenever it is read."""

SCARCE_MEMORY: Final = 45_000
"""Enough for one pool on demand and a few requests."""

Settings = dict[str, Any]

ARMS: Final[tuple[dict[str, str | int | float], ...]] = (
    {"a": "1/2", "b": "1/4", "c": 0},
    {"a": "0.3", "b": "0.3", "c": "0.2", "d": "0.2"},
    {"b": "1/3", "c": "1/3", "a": "1/3"},
    {"a": 0.05, "b": 0.1},
    {"b": "2/3", "e": "1/7"},
    {"a": 1},
    {"d": 0, "a": 0, "b": 0},
)
REFUSED: Final[tuple[Settings, ...]] = (
    {"arms": {"a": "2/3", "b": "2/3"}},
    {"arms": {"a": "-1/3"}},
    {"arms": {}},
    {"arms": {"z": 0, "y": "0.1", "x": 0}, "learner": {"name": "t-fair-ucb", "horizon": 1}},
    {"learner": "no such learner"},
    {"learner": {"name": "ucb1", "no such parameter": 1}, "tolerance": 3},
    {"rule": "max-deficit", "arms": {"a": "1/2", "b": "1/2"}},
    {"tolerance": "-1"},
    {"tolerance": "much"},
)
REAL: Final[tuple[Settings, ...]] = (
    {"max_open": 1, "reassign": True, "wait_timeout": 1.0, "bank": 2},
    {"max_open": 2, "reassign": True},
    {"when_busy": "refuse", "max_open": 1},
    {"wait_timeout": 0.5},
    {"max_open": 1},
)
"""Settings of pools whose requests name arms and slots, want and wait."""

NAMES: Final = "abcde"

HEADERS: Final[tuple[Headers, ...]] = (
    (),
    (("traceparent", b"00-%032x-%016x-01"), ("tracestate", b"vendor=%d%d")),
    (("correlation-id", b"\xff\x00 %d %d"),),
    (("ce_id", b"%d%d"), ("ce_type", b"request"), ("correlation_id", b"%d-%d")),
    (("traceparent", b"first"), ("traceparent", b"second %d%d"), ("tracestate", b"x" * 3_000)),
)
"""What a record may come with; the numbers in it tell it from the others."""

FORCING_LESS: Final = ("t-fair-ucb", "lfg", "tscsf-b")
"""Learners that are there for rule "none"."""

POISON: Final[tuple[bytes | None, ...]] = (
    None,
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"request_id": 7, "pool": "od-1"}',
    b'{"request_id": "", "pool": "od-1"}',
    b'{"request_id": "\\ud800", "pool": "od-1"}',
    b'{"request_id": "r", "pool": "od-1", "value": NaN}',
    b'{"request_id": "r", "pool": "od-1", "value": 1.5, "time": "yesterday"}',
    b'{"action": "explode", "pool": "od-1"}',
    b'{"action": "configure", "pool": "od-1", "reward_timeout": 0}',
    b"[" * 5_000,
    b" " * 3_000,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a schedule is made of: the inputs, and the settings of one planned run after another."""

    seed: int
    learner: str
    partitions: int
    inputs: list[Incoming]
    versions: list[ServiceSettings]
    rules: Rules


def learner_of(seed: int) -> str:
    names = sorted(known_learners())
    return names[seed % len(names)]


def _spec(learner: str) -> str | Settings:
    return {"name": learner, "horizon": 300} if learner == "t-fair-ucb" else learner


def wishes(rng: Random) -> Settings:
    """Return which arms a request names or needs, and how many it wants."""
    said = Settings()
    match rng.randrange(5):
        case 0 | 1:
            said["eligible"] = rng.sample(NAMES[:4], rng.randint(1, 3))
        case 2:
            said["needs"] = rng.choice(("x", "x & !y", "!x", "(x | y) & !z"))
    if rng.random() < 0.4:
        said["slots"] = rng.randint(1, 3)
    return said


def arm_control(rng: Random) -> Settings:
    """Return a control for some arms."""
    action = rng.choice(("sleep", "sleep", "wake", "wake", "wake", "set-arm", "remove-arm"))
    names = rng.sample(NAMES[:4], rng.randint(1, 3))
    if action != "set-arm":
        return {"action": action, "arms": names if action != "remove-arm" else names[:1]}
    said = ({"quota": "0.1"}, {"quota": 0, "max_open": 1}, {"tags": ["x"]}, {"tags": ["y"]})
    return {"action": action, "arms": {name: rng.choice(said) for name in names[:2]}}


class _Inputs:
    """Writes inputs down as time goes by."""

    def __init__(
        self, rng: Random, pools: list[str], learner: str, *, real: bool, seed: int
    ) -> None:
        self.written: list[tuple[int, Incoming]] = []
        self._rng = rng
        self._headers = Random(f"headers {seed}")  # other draws do not depend on them
        self._pools = pools
        self._learner = learner
        self._real = real
        self._requests: list[tuple[str, str]] = []

    def _write(self, time: int, topic: str, pool: str, event: Mapping[str, Any]) -> None:
        rng = self._rng
        stamp = time - rng.choice((0, 0, 0, 40, 900))
        key: bytes | None = pool.encode()
        partition = None
        spoilt = rng.random()
        if spoilt < 0.01:
            key = rng.choice((None, b"", b"other", b"\xff"))
            partition = 0
        elif spoilt < 0.02:
            partition = rng.randrange(2)
        elif spoilt < 0.03:
            stamp = FUTURE
        value = json.dumps(event, ensure_ascii=rng.random() < 0.5).encode()
        headers = self._some_headers()
        self.written.append((time, Incoming(topic, key, value, partition, stamp, headers)))

    def _some_headers(self) -> Headers:
        number = len(self.written)
        return tuple(
            (name, value % (number, number) if b"%" in value else value)
            for name, value in self._headers.choice(HEADERS)
        )

    def request(self, time: int) -> None:
        rng = self._rng
        if self._requests and rng.random() < 0.12:
            pool, request_id = rng.choice(self._requests[-12:])
        else:
            pool = rng.choice(self._pools)
            request_id = f"r{len(self._requests)}" + rng.choice(("", "", '"é\n', "\U0001f600"))
            self._requests.append((pool, request_id))
        event: Settings = {"pool": pool, "request_id": request_id}
        if self._real:
            event |= wishes(rng)
        if rng.random() < 0.1:
            event["time"] = "2024-05-01T10:00:00+02:00"
        self._write(time, "requests", pool, event)
        while rng.random() < 0.6:
            self._reward(time + rng.choice((-100, 1, 50, 300, 800, 2500)), pool, request_id)

    def _reward(self, time: int, pool: str, request_id: str) -> None:
        rng = self._rng
        if rng.random() < 0.05:
            request_id = "nobody's"
        event: Settings = {"pool": pool, "request_id": request_id}
        if self._real and rng.random() < 0.8:
            event["arm"] = rng.choice(NAMES)
        if self._real and rng.random() < 0.4:
            event["type"] = "declined"
        else:
            event["value"] = rng.choice((0, 1, rng.random()))
        self._write(time, "rewards", pool, event)

    def control(self, time: int) -> None:
        rng = self._rng
        pool = rng.choice(self._pools)
        if self._real and rng.random() < 0.7:
            self._write(time, "controls", pool, {"pool": pool, **arm_control(rng)})
            return
        action = rng.choice(("configure",) * 6 + ("pause", "resume", "resume", "remove"))
        event: Settings = {"pool": pool, "action": action}
        if action == "configure":
            event |= rng.choice(REFUSED) if rng.random() < 0.2 else self.settings()
        self._write(time, "controls", pool, event)

    def settings(self) -> Settings:
        """Return settings for a change, or with arms for a new pool."""
        rng = self._rng
        possible: Settings = {
            "arms": rng.choice(ARMS),
            "tolerance": rng.choice((0, 1, "3/2", 2.5)),
            "learner": _spec(rng.choice((self._learner, learner_of(rng.randrange(100))))),
            "reward_timeout": rng.choice((None, 0.0001, 0.3, 1, 2.5)),
            "default_reward": rng.choice((None, 0, 0.25, 1)),
            "rule": rng.choice(("auto", "earliest-deadline")),
        }
        likely = {"arms": 0.7, "learner": 0.3, "reward_timeout": 0.4}
        if self._learner in FORCING_LESS:
            # Else a pool of the file could come back with a rule, which cannot be switched.
            possible["rule"], likely["rule"] = "none", 1
        return {n: v for n, v in possible.items() if rng.random() < likely.get(n, 0.2)}

    def poison(self, time: int) -> None:
        rng = self._rng
        topic = rng.choice(("requests", "rewards", "controls"))
        value = rng.choice(POISON)
        headers = self._some_headers()
        poison = Incoming(topic, b"od-1", value, rng.randrange(2), time, headers)
        self.written.append((time, poison))


def _pool_settings(rng: Random, learner: str, *, real: bool) -> Settings:
    """Return what all versions of a pool of the file, or of the template, have in common."""
    settings: Settings = {"learner": _spec(learner)}
    if real:
        settings |= {"requests": "any", **rng.choice(REAL)}
    if learner in FORCING_LESS:
        settings["rule"] = "none"
        settings.pop("bank", None)  # it promises nothing there
    if rng.random() < 0.7:
        settings["reward_timeout"] = rng.choice((0.2, 1.0))
    if rng.random() < 0.4:
        settings["default_reward"] = rng.choice((0.0, 0.5))
    if rng.random() < 0.2:
        settings |= rng.choice(({"rate": 1, "burst": 2}, {"rate": 3}, {"rate": 20, "burst": 1}))
    return settings


def make_plan(seed: int, *, real: bool | None = None) -> Plan:
    """Return the plan of a seed; most are short, so that there can be many.

    Every second one has pools of `real` requests, unless that is said otherwise.
    """
    rng = Random(seed)
    size = rng.choice((4, 8, 12, 25))
    learner = learner_of(seed)
    partitions = rng.choice((2, 2, 3))
    runs = rng.choice((1, 1, 2, 3))
    real = seed % 2 == 1 if real is None else real
    fixed_of = {n: _pool_settings(rng, learner, real=real) for n in ("*", "file-1", "file-2")}
    pools = ["od-1", "od-2", "ód", "file-1", "file-2", "ctl-1", "ctl-2"]
    rng.shuffle(pools)
    inputs = _Inputs(rng, pools[: rng.choice((3, 5, 7))], learner, real=real, seed=seed)
    time = START
    for _ in range(size):
        time += rng.choice((0, 1, 20, 150, 600))
        kind = rng.choices((inputs.request, inputs.control, inputs.poison), weights=(10, 2, 1))[0]
        kind(time)
    written = [each for _, each in sorted(inputs.written, key=lambda each: each[0])]
    shard = ShardSettings(
        seed=seed,
        partitions=partitions,
        record_bytes=2_000,
        pending_per_pool=rng.choice((3, 8, 100)),
        remembered_per_pool=rng.choice((0, 2, 5, 100)),
        # A changed file would not be taken up by a shard that is full.
        pools_per_shard=rng.choice((3, 100)) if runs == 1 else 100,
        retire_after=rng.choice((None, 100, 1_000)),
        standing_every=rng.choice((1, 7, 10)),
    )
    # A restored shard has retired no pool yet, so it may have less memory left than before.
    scarce = seed % 5 == 0 and shard.retire_after is None
    if scarce:
        shard = replace(shard, memory_bytes=SCARCE_MEMORY)
    has_template = rng.random() < 0.8
    base = ServiceSettings(
        batch_records=rng.choice((3, 8, 20)),
        ahead_records=2,
        tick_seconds=rng.choice((0.0, 1e9)),
        snapshot_entries=rng.choice((1, 1, 2, 4)),
        snapshot_chunk_bytes=rng.choice((200, 1_000, 5_000)),
    )
    versions = []
    for version in range(runs):
        drawn = {n: {**fixed, "arms": rng.choice(ARMS)} for n, fixed in fixed_of.items()}
        fingerprint = f"v{version if rng.random() < 0.7 else 0}"
        versions.append(
            replace(
                base,
                shard=replace(
                    shard,
                    template=drawn["*"] if has_template else None,
                    template_fingerprint=fingerprint,
                ),
                pools={name: FilePool(drawn[name], fingerprint) for name in ("file-1", "file-2")},
            )
        )
    rules = Rules(
        now=time + 10**6,
        record_bytes=shard.record_bytes,
        pending=shard.pending_per_pool,
        remembered=shard.remembered_per_pool,
        pools_per_shard=shard.pools_per_shard,
        standing_every=shard.standing_every,
        scarce=scarce,
        template=fixed_of["*"] if has_template else None,
        pools={name: fixed_of[name] for name in ("file-1", "file-2")},
    )
    return Plan(seed, learner, partitions, written, versions, rules)
