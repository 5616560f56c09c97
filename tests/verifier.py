"""An independent verifier: reads only the topics, and holds them against the invariants.

It knows what `events` says of the records and what the operator configured, and shares no code
with the shard: it reads the inputs by rules of its own, follows the assignments topic record by
record, and so learns in which order the inputs were folded, which requests were waited for and
which rewards counted. Whatever does not fit raises `Broken`.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

from fair_allocator.audit import Audit
from fair_allocator.events import DeadLetter
from fair_allocator.log.base import INPUTS, RECORD_BYTES, LogClient, Record
from tests.deduplicated import Deduplicated
from tests.judge import Json, Rules, judge
from tests.requirement import Broken, require

__all__ = ["Broken", "Counts", "require", "Rules", "verify"]


# -- what is known of a pool ----------------------------------------------------------------------


@dataclass(slots=True)
class Arm:
    """One arm, counted anew; `joined` is its first round."""

    joined: int
    quota: Fraction = Fraction(0)
    entitled: Fraction = Fraction(0)
    pulls: int = 0
    pending: int = 0
    observed: int = 0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    round: int
    arm: str
    clock: int


@dataclass(slots=True)
class Life:
    """A pool from when it is made until it is removed."""

    name: str
    timeout: int | None = None
    default: float | None = None
    paused: bool = False
    rounds: int = 0
    epoch: int = 0
    bound: int | None = None
    stood: int = 0
    arms: dict[str, Arm] = field(default_factory=dict)
    open: dict[str, Answer] = field(default_factory=dict)
    closed: deque[tuple[str, Answer]] = field(default_factory=deque)

    def take_settings(self, settings: Mapping[str, Any]) -> None:
        """Take over how to wait; a null unsets it, what is left out stays."""
        if "reward_timeout" in settings:
            seconds = settings["reward_timeout"]
            self.timeout = None if seconds is None else max(1, round(seconds * 1000))
        self.default = settings.get("default_reward", self.default)

    def recall(self, request_id: str) -> Answer | None:
        return self.open.get(request_id) or dict(self.closed).get(request_id)

    def close(self, request_id: str, value: float | None, remembered: int) -> None:
        """Wait no longer for a request; count its reward if there is one and its arm is there."""
        answer = self.open.pop(request_id)
        self.closed.append((request_id, answer))
        # Known until that many more were closed, and as many rounds played since its answer.
        while len(self.closed) > remembered and self.closed[0][1].round <= self.rounds - remembered:
            self.closed.popleft()
        arm = self.arms.get(answer.arm)
        if arm is not None and arm.joined <= answer.round:
            arm.pending -= 1
            if value is not None:
                arm.observed += 1
                arm.total += value

    def expire(self, clock: int, remembered: int) -> None:
        for request_id, answer in list(self.open.items()):
            if self.timeout is not None and answer.clock + self.timeout <= clock:
                self.close(request_id, self.default, remembered)

    def play(self, arm: str) -> None:
        """Count a round, and look at every arm (I4)."""
        require(arm in self.arms, self.name, "has no arm", arm)
        self.rounds += 1
        self.arms[arm].pulls += 1
        for name, each in self.arms.items():
            each.entitled += each.quota
            short = floor(each.entitled) - each.pulls
            fair = self.bound is None or short <= self.bound
            require(fair, "I4:", self.name, "round", self.rounds, "arm", name, "is short by", short)

    def announce(self, event: Json) -> None:
        """Take an epoch record over, held against what is known (I4)."""
        here = f"I4: {self.name} round {event['round']}:"
        require(event["round"] == self.rounds + 1, here, "announced in round", self.rounds + 1)
        require(event["epoch"] >= self.epoch, here, "epoch goes back from", self.epoch)
        if event["complete"]:
            require(event["chunks"] == 1, "this verifier reads no chunks")
            self.stood = event["folded"]["requests"]
            self.arms = {n: self.arms.get(n) or Arm(self.rounds + 1) for n in event["arms"]}
        for name, standing in event["arms"].items():
            require(name in self.arms, here, "no arm", name)
            arm = self.arms[name]
            said = Fraction(standing["entitled"]), standing["pulls"]
            require(said == (arm.entitled, arm.pulls), here, name, "stands at", arm, "not", said)
            arm.quota = Fraction(standing["quota"])
        require(sum(arm.quota for arm in self.arms.values()) <= 1, here, "overbooked")
        bound, asked = event["bound"], floor(Fraction(event["tolerance"]))
        require((bound is None) == (event["rule"] == "none"), here, "bound without a rule")
        if bound is not None:
            require(asked <= bound <= max(asked, self.bound or 0), here, "bound", bound)
        self.bound, self.epoch = bound, event["epoch"]


# -- a partition ----------------------------------------------------------------------------------


class Partition:
    """Follows one partition's assignments through its inputs."""

    def __init__(self, client: LogClient, partition: int, rules: Rules) -> None:
        self.pools: dict[str, Life] = {}
        self.clock = 0
        self._place = partition
        self._rules = rules
        self._partitions = client.partitions
        self._inputs = {topic: deque(client.read(topic, partition)) for topic in INPUTS}
        self._letters = dict(_letters(client, partition))
        for record in client.read("assignments", partition):
            self._follow(json.loads(record.value or b""))
        for topic in INPUTS:
            self._skip(topic, None)
        require(not self._letters, "I1: dead letters of records that are fine:", self._letters)

    def _follow(self, event: Json) -> None:
        folded = event["folded"]
        require(event["partition"] == self._place, "a record of another partition:", event)
        cause: tuple[str, Record, Json] | None = None
        for topic in ("requests", "rewards", "controls"):
            last = self._skip(topic, folded[topic])
            require(last is None or cause is None, "two inputs without a record between:", event)
            if last is not None:
                cause = (topic, *last)
        kind = event["type"]
        if kind == "assignment":
            require(cause is not None and cause[0] == "requests", "I1: answers nothing:", event)
        if kind == "tick":
            require(cause is None, "a tick for an input:", event)
            self._elapse(event["clock"])
        elif cause is None:
            self._follow_own(event)
        elif cause[0] == "requests":
            self._follow_request(event, cause[1], cause[2])
        else:
            self._follow_control(event, cause[1], cause[2])

    def _skip(self, topic: str, end: int | None) -> tuple[Record, Json] | None:
        """Pass over what was folded before a record: rewards, and inputs that changed nothing.

        Returns the input that the record is about, which is the last and not passed over.
        """
        line = self._inputs[topic]
        while line and (end is None or line[0].offset < end):
            record = line[0]
            reason, event = judge(record, self._rules, self._partitions)
            reason = reason or self._refusal(topic, record, event)
            if reason is not None:
                self._take_letter(record, reason)
            elif topic == "rewards":
                self._reward(record, event)
            else:
                here = f"{topic} {self._place} @ {record.offset}"
                require(end is not None, "I1: nothing came of", here)
                require(record.offset + 1 == end, "I1:", here, "was passed over")
                return record, event
            line.popleft()
        return None

    def _refusal(self, topic: str, record: Record, event: Json) -> str | None:
        """Return why a record that is fine by itself cannot be used now."""
        life = self.pools.get(event["pool"])
        if topic == "controls" and event["action"] == "configure":
            # Whether the core refuses a change is its own affair; it must say so then.
            return "refused" if (topic, record.offset) in self._letters else None
        if life is None:
            if topic != "requests" or self._rules.template is None:
                return "unknown-pool"
            return "refused" if len(self.pools) >= self._rules.pools_per_shard else None
        return "paused" if life.paused and topic == "requests" else None

    def _take_letter(self, record: Record, reason: str) -> None:
        here = f"{record.topic} {record.partition} @ {record.offset}"
        letter = self._letters.pop((record.topic, record.offset), None)
        require(letter is not None, f"I1: no dead letter for {here}: {reason}")
        assert letter is not None
        require(_is_told(letter, record), "I1: other bytes:", here)
        require(letter.timestamp == record.timestamp, "I1: other time:", here)
        require(letter.reason == reason, f"I1: {here} is {letter.reason}, should be {reason}")

    def _elapse(self, clock: int) -> None:
        if clock > self.clock:
            self.clock = clock
            for life in self.pools.values():
                life.expire(clock, self._rules.remembered)

    def _reward(self, record: Record, event: Json) -> None:
        self._elapse(record.timestamp)
        life, request_id = self.pools[event["pool"]], event["request_id"]
        if request_id in life.open:
            life.close(request_id, event["value"], self._rules.remembered)

    def _follow_own(self, event: Json) -> None:
        """Take in an epoch that no input caused: of the file, repeated, or come by itself."""
        name = event["pool"]
        require(event["type"] == "epoch", "without a cause:", event)
        if event["complete"]:
            require(name in self._rules.pools, "made by nobody:", event)
            life = self.pools.setdefault(name, Life(name))
            life.take_settings(self._rules.pools[name])
            life.expire(self.clock, self._rules.remembered)
        self.pools[name].announce(event)

    def _follow_request(self, event: Json, record: Record, request: Json) -> None:
        name, request_id = request["pool"], request["request_id"]
        require(event["pool"] == name, "I1: of another pool:", event)
        self._elapse(record.timestamp)
        life = self.pools.get(name)
        if event["type"] == "epoch":
            if life is None:
                life = self.pools[name] = Life(name)
                life.take_settings(self._rules.template or {})
            life.announce(event)
            return
        require(life is not None and event["type"] == "assignment", "I1: not made:", event)
        assert life is not None
        require(event["request_id"] == request_id, "I1: of another request:", event)
        self._inputs["requests"].popleft()
        every = max(self._rules.standing_every, 10 * len(life.arms))
        require(record.offset - life.stood < every, "no standing before", event)
        known = life.recall(request_id)
        if event["repeat"]:
            require(known is not None, "I1: repeats what was not answered:", event)
            assert known is not None
            require((known.round, known.arm) == (event["round"], event["arm"]), "I1:", event)
            return
        require(known is None, "I1: counted twice:", event)
        require(event["round"] == life.rounds + 1, "a gap in the rounds:", event)
        require(event["epoch"] == life.epoch, "of another epoch:", event)
        if len(life.open) >= self._rules.pending:
            life.close(next(iter(life.open)), life.default, self._rules.remembered)
        life.play(event["arm"])
        life.open[request_id] = Answer(life.rounds, event["arm"], self.clock)
        life.arms[event["arm"]].pending += 1

    def _follow_control(self, event: Json, record: Record, control: Json) -> None:
        name, action = control["pool"], control["action"]
        require(event["pool"] == name, "of another pool:", event)
        self._inputs["controls"].popleft()
        if action == "remove":
            rounds = self.pools.pop(name).rounds
            require(event["type"] == "removed" and event["rounds"] == rounds, "removed?", event)
        else:
            require(event["type"] == "epoch" and event["complete"], "no standing:", event)
            life = self.pools.setdefault(name, Life(name))
            if action == "configure":
                life.take_settings(control)
                life.expire(self.clock, self._rules.remembered)
                wanted = control.get("arms")
                require(wanted is None or list(event["arms"]) == list(wanted), "arms?", event)
            else:
                life.paused = action == "pause"
            life.announce(event)
        self._elapse(record.timestamp)


def _is_told(letter: DeadLetter, record: Record) -> bool:
    """Tell whether a dead letter has a record's bytes: all of them, or what fits of a large one."""
    told, came = letter.original(), (record.key, record.value)
    if not letter.truncated:
        return told == came
    large = sum(len(part or b"") for part in came) > RECORD_BYTES // 8
    return large and all(
        some == every if some is None or every is None else every.startswith(some)
        for some, every in zip(told, came, strict=True)
    )


def _letters(client: LogClient, partition: int) -> Iterator[tuple[tuple[str, int], DeadLetter]]:
    seen = set()
    for record in client.read("dead-letters", partition):
        letter = DeadLetter.model_validate_json(record.value or b"")
        place = letter.topic, letter.offset
        require(letter.partition == partition and place not in seen, "I1: twice:", letter)
        seen.add(place)
        yield place, letter


# -- the log --------------------------------------------------------------------------------------

Counts = dict[str, dict[str, tuple[int, int, int, float]]]
"""By pool and arm: pulls, pending, observed, and the sum of the rewards."""


def verify(client: LogClient, rules: Rules, *, exactly_once: bool = True) -> Counts:
    """Hold a log whose inputs were all folded against the invariants; return its counts.

    Where delivery is not `exactly_once`, records may be there several times: then all of them must
    be equal, and the invariants hold for what is left if each is counted once.
    """
    audit = Audit(window=rules.remembered)
    counts: Counts = {}
    followed = client if exactly_once else Deduplicated(client)
    for partition in range(client.partitions):
        for name, life in Partition(followed, partition, rules).pools.items():
            require(name not in counts, name, "lives on two partitions")
            counts[name] = {
                arm: (each.pulls, each.pending, each.observed, each.total)
                for arm, each in life.arms.items()
            }
        for record in client.read("assignments", partition):
            audit.feed(partition, record.offset, record.value or b"")
    report = audit.report()
    require(report.ok, "the audit:", report.first)
    return counts
