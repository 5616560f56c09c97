"""An independent verifier: it reads only the topics, and checks the invariants.

It knows the form of the records from `events`, and what the operator configured. It shares no code
with the shard. It reads the inputs by its own rules, and follows the assignments topic record by
record. So it learns in which order the service folded (applied) the inputs, which requests waited,
and which rewards were counted. Anything that does not fit raises `Broken`. The names of the
invariants are I1, I2 and so on (see docs/reliability.md).

A request or a control that was not refused has a record of its own in the assignments topic. Other
inputs have none: they were refused, or they are rewards or declines. Between two records, the
verifier applies such inputs in the order of their times. An input can have several effects, for
example if timeouts end. The verifier applies these effects one by one, as far as the next record
shows that they have happened.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from fair_allocator.audit import Audit
from fair_allocator.log.base import LogClient
from fair_allocator.log.interleaving import by_time
from fair_allocator.log.records import INPUTS, Record
from fair_allocator.shard import chain
from tests.support.chained import follow_chain
from tests.support.deduplicated import Deduplicated
from tests.support.headers import verify_headers
from tests.support.judge import Json, Rules, judge
from tests.support.letters import answered, has_bytes_of, letters_of, take
from tests.support.requirement import Broken, require
from tests.support.verified_pool import Life, Waiter

__all__ = ["Broken", "Counts", "Life", "require", "Rules", "verify"]

LATER = ("nobody-left", "refused", "paused", "nobody-free", "too-many-waiting")
"""The reasons of dead letters for requests that are not decided again."""


class Partition:
    """Follows the assignments of one partition, and applies its inputs."""

    def __init__(self, client: LogClient, partition: int, rules: Rules) -> None:
        self.pools: dict[str, Life] = {}
        self.clock = 0
        self._place = partition
        self._rules = rules
        self._partitions = client.partitions
        self._inputs = {topic: deque(client.read(topic, partition)) for topic in INPUTS}
        self._letters = letters_of(client, partition)
        self._steps: deque[Callable[[], None]] = deque()
        """The effects of the last input that were not applied yet."""
        self._cause: tuple[Record, Json] | None = None
        """The request or control that caused the next records, until the record that answers it."""
        self._made_room_for: Record | None = None
        """The request for which `_make_room` was last called."""
        self._held: tuple[int, Json] = 0, {}
        """The latest time at which inputs below some offsets count: (time, offsets)."""
        records = [json.loads(each.value or b"") for each in client.read("assignments", partition)]
        outputs = [event for event in records if event["type"] != "checkpoint"]
        self._answered = answered(outputs)
        for event in outputs:
            require(event["partition"] == partition, "a record of another partition:", event)
            self._read_up_to(event["folded"])
            self._follow(event)
        self._read_up_to(None)
        self._finish()
        self._demand_served()
        left = {place: each for place, each in self._letters.items() if each}
        require(not left, "I1: dead letters of records that are fine:", left)

    # -- inputs -------------------------------------------------------------------------------

    def _read_up_to(self, folded: dict[str, int] | None) -> None:
        """Apply the inputs that were read before a record. The last of them may be its cause."""
        quiet: list[list[Record]] = []
        causes: list[tuple[Record, Json]] = []
        for topic in INPUTS:
            line, block = self._inputs[topic], []
            while line and (folded is None or line[0].offset < folded[topic]):
                record = line.popleft()
                _, event = judge(record, self._rules, self._partitions)
                if self._has_own_record(record, event):
                    causes.append((record, event))
                else:
                    block.append(record)
            if block:
                quiet.append(block)
        if not quiet and not causes:
            return
        self._finish()
        self._demand_served()
        require(len(causes) <= 1, "I1: two inputs without a record between:", causes)
        quiet = [left for block in quiet if (left := self._take_unreadable(block))]
        for record in by_time(quiet) if quiet else ():
            self._finish()
            self._take(record)
        if causes:
            self._finish()
            self._cause = causes[0]
            record = causes[0][0]
            if record.topic == "requests":
                self._steps.append(lambda: self._elapse(self._time_of(record)))

    def _take_unreadable(self, block: list[Record]) -> list[Record]:
        """Check the dead letters of the records that no pool can use; return the other records.

        Records that no pool can use change nothing, so the service may have read them between any
        two of the others.
        """
        others = []
        for record in block:
            reason, event = judge(record, self._rules, self._partitions)
            if reason is None and record.topic != "controls":
                reason = self._early_refusal(record, event)
            if reason is not None:
                self._take_letter(record, (reason,))
            elif record.topic == "controls":
                # The verifier does not know whether the core refuses a change. If it does, there
                # must be a letter.
                self._take_letter(record, ("refused", "unknown-pool"))
            else:
                others.append(record)
        return others

    def _has_own_record(self, record: Record, event: Json) -> bool:
        if record.topic == "requests":
            return record.offset in self._answered
        return record.topic == "controls" and not self._letters.get(("controls", record.offset))

    def _take(self, record: Record) -> None:
        """Apply an input that has no record of its own."""
        _, event = judge(record, self._rules, self._partitions)
        require(record.topic != "requests", "I1: nothing came of", record)
        self._steps.append(lambda: self._elapse(self._time_of(record)))
        self._steps.append(self._give_up_again)
        self._steps.append(lambda: self._reward(record, event))

    def _early_refusal(self, record: Record, event: Json) -> str | None:
        """Return why a valid input is refused before its pool sees it; None if it is not."""
        letters = self._letters.get((record.topic, record.offset), [])
        if self._rules.scarce and any(each.reason == "no-memory" for each in letters):
            return "no-memory"
        if event["pool"] in self.pools or event.get("action") == "configure":
            return None
        if record.topic != "requests" or self._rules.template is None:
            return "unknown-pool"
        return "refused" if len(self.pools) >= self._rules.pools_per_shard else None

    def _follow_refusal(self, event: Json) -> None:
        """Check that a request was refused for a good reason (I1)."""
        too_fast = event["reason"] == "too-many-requests"
        record, request = self._own(event, too_fast=too_fast)
        if too_fast:
            self._take_letter(record, (event["reason"],))
            return
        life = self.pools[request["pool"]]
        names = set(request.get("eligible") or ())
        named = bool(names or request.get("needs")) or (request.get("slots") or 1) > 1
        nobody = not (life.able(request) - life.away())
        capped = any(arm.cap is not None for arm in life.arms.values())
        right = {
            "refused": not names <= life.arms.keys() or not life.able(request)
            or (named and life.requests == "plain") or (request.get("slots") or 1) > 1_000,
            "too-many-waiting": len(life.waiting) >= self._rules.waiting,
        }  # fmt: skip
        if life.settings.get("when_busy") == "refuse":
            right |= {"paused": life.paused, "nobody-free": nobody or capped}
        require(right.get(event["reason"]), "I1: why was it refused?", event)
        self._take_letter(record, (event["reason"],))

    def _take_letter(self, record: Record, reasons: tuple[str, ...]) -> None:
        """Check that a record has a dead letter with one of these reasons, and remove the
        letter.
        """
        here = f"{record.topic} {record.partition} @ {record.offset}"
        letter = take(self._letters, record.topic, record.offset, reasons)
        require(has_bytes_of(letter, record), "I1: other bytes:", here)
        require(letter.timestamp == record.timestamp, "I1: other time:", here)

    def _time_of(self, record: Record) -> int:
        """Return the time at which an input counts: its own, unless a record says that it is
        ahead.
        """
        clock, until = self._held
        held = record.offset < until.get(record.topic, 0)
        return min(record.timestamp, clock) if held else record.timestamp

    def _elapse(self, clock: int) -> None:
        if clock > self.clock:
            self.clock = clock
            for life in self.pools.values():
                self._bury(life.expire(clock))

    def _bury(self, tired: list[Waiter]) -> None:
        for waiter in tired:
            self._take_later_letter(waiter, ("waited-too-long",))

    def _take_later_letter(self, waiter: Waiter, reasons: tuple[str, ...]) -> None:
        """Check and remove the dead letter of a request that was read earlier."""
        take(self._letters, "requests", waiter.offset, reasons)

    def _reward(self, record: Record, event: Json) -> None:
        """Apply a reward or a decline."""
        life, request_id, arm = self.pools[event["pool"]], event["request_id"], event.get("arm")
        known = life.recall(request_id)
        if known is None:
            return
        arms = [pick.arm for pick in known.picks]
        standing = [pick.arm for pick in known.picks if pick.stands]
        if arm is None and 1 in (len(arms), len(standing)):
            arm = arms[0] if len(arms) == 1 else standing[0]
        if arm not in arms:
            self._take_letter(record, ("refused",))
            return
        pick = life.open.get((request_id, arm))
        if pick is not None and event.get("type") == "declined":
            life.give_back(pick, None, declined=True)
        elif pick is not None:
            life.close(pick, event["value"])

    def _finish(self) -> None:
        """Apply all remaining effects of the last input.

        Nothing may be left that has to be done.
        """
        self._step_until(lambda: False)
        require(self._cause is None, "I1: nothing came of", self._cause)
        self._give_up_again()
        self._give_up_gone()

    def _give_up_gone(self) -> None:
        """Forget the waiting requests whose arms have all left the pool. Each has a dead letter."""
        for life in self.pools.values():
            for key, waiter in list(life.waiting.items()):
                letters = self._letters.get(("requests", waiter.offset), ())
                if not any(each.reason in LATER for each in letters):
                    continue
                gone = not set(waiter.request.get("eligible") or ()) <= life.arms.keys()
                if gone or not life.able(waiter.request, key[1]):
                    self._take_later_letter(waiter, LATER)
                    life.give_up(*key)

    def _demand_served(self) -> None:
        """Check that no request waits that an arm can take.

        In pools with caps, this is not checked.
        """
        for life in self.pools.values():
            if life.paused or any(arm.cap is not None for arm in life.arms.values()):
                continue
            away = life.away()
            if life.arms.keys() <= away:
                continue
            for (_, instead_of), waiter in life.waiting.items():
                free = life.able(waiter.request, instead_of) - away
                require(not free, "I1: waits, but somebody is free:", waiter, free)

    def _give_up_again(self) -> None:
        """Forget the requests that were not decided again though they should be.

        Each has a letter.
        """
        for life in self.pools.values():
            for (request_id, arm), request in list(life.again.items()):
                del life.again[request_id, arm]
                self._take_later_letter(Waiter(request["offset"], request, 0), LATER)
                life.give_up(request_id, arm)

    def _step_until(self, happened: Callable[[], bool]) -> None:
        while self._steps and not happened():
            self._steps.popleft()()

    # -- records ------------------------------------------------------------------------------

    def _follow(self, event: Json) -> None:
        kind, name = event["type"], event.get("pool")
        if kind == "tick":
            self._finish()
            self._elapse(event["clock"])
            self._held = event["clock"], event.get("until", {})
            return
        if self._cause is not None:
            require(self._cause[0].topic != "controls" or self._cause[1]["pool"] == name, event)
        match kind:
            case "epoch":
                self._follow_epoch(event)
            case "assignment":
                self._follow_assignment(event)
            case "waiting":
                self._follow_waiting(event)
            case "refused":
                self._follow_refusal(event)
            case "control" | "removed":
                self._follow_control(event)

    def _own(self, event: Json, *, too_fast: bool = False) -> tuple[Record, Json]:
        """Return the request that a record answers, if the record was written when it was read."""
        require(self._cause is not None, "I1: answers nothing:", event)
        assert self._cause is not None
        record, request = self._cause
        ids = request.get("request_id"), request["pool"]
        require(ids == (event["request_id"], event["pool"]), "I1: of another request:", event)
        self._step_until(lambda: False)
        life = self.pools.get(event["pool"])
        require(life is not None, "I1: not made:", event)
        assert life is not None
        known = life.recall(event["request_id"]) or (event["request_id"], "") in life.waiting
        above = not known and life.is_too_fast(self.clock)
        require(above == too_fast, "the rate is exceeded, or is it not?", event)
        if too_fast:
            self._cause = None
            return record, request
        self._make_room(life, event["pool"])
        self._cause = None
        every = max(self._rules.standing_every, 10 * len(life.arms))
        require(record.offset - life.stood < every, "no standing before", event)
        return record, {**request, "offset": record.offset}

    def _make_room(self, life: Life, name: str) -> None:
        """Expire the oldest picks for the request that is being read, but only once.

        The expired picks may be decided again.
        """
        if self._cause is None or self._cause[0] is self._made_room_for:
            return
        record, request = self._cause
        if record.topic == "requests" and request["pool"] == name:
            self._made_room_for = record
            if life.recall(request["request_id"]) is None:
                life.make_room(self._rules.pending)

    def _follow_assignment(self, event: Json) -> None:
        if "request_offset" in event:
            self._follow_late(event)
            return
        _, request = self._own(event)
        life = self.pools[event["pool"]]
        known = life.recall(event["request_id"])
        if not event["repeat"]:
            require(known is None, "I1: counted twice:", event)
            require(not life.paused, "decided in a paused pool:", event)
            life.take(self.clock)
            life.play(event, request, self.clock)
            return
        require(known is not None, "I1: repeats what was not answered:", event)
        assert known is not None
        picks = [pick for pick in known.picks if pick.stands] or known.picks
        said = [event["arm"], *(pick["arm"] for pick in event.get("others", ()))]
        require(said == [pick.arm for pick in picks], "I1: repeats", picks, "as", event)
        require(event["round"] == picks[0].round, "I1: repeats", picks, "as", event)

    def _follow_late(self, event: Json) -> None:
        """Apply the decision of a request that was read earlier."""
        life = self.pools[event["pool"]]
        key = event["request_id"], event.get("instead_of", "")
        moved = set(event.get("away", ())), set(event.get("back", ()))

        def happened() -> bool:
            told = (life.told_away | moved[0]) - moved[1]
            return told == life.away() and (key in life.waiting or key in life.again)

        self._step_until(happened)
        if not happened():
            self._make_room(life, event["pool"])
        waiter = life.waiting.get(key)
        request = life.again.get(key) if waiter is None else waiter.request
        require(request is not None, "I1: decides what does not wait:", event)
        assert request is not None
        require(request["offset"] == event["request_offset"], "I1: of another request:", event)
        require(not life.paused, "decided in a paused pool:", event)
        life.play(event, request, self.clock)

    def _follow_waiting(self, event: Json) -> None:
        life, key = self.pools[event["pool"]], (event["request_id"], event.get("instead_of", ""))
        if key[1]:
            self._step_until(lambda: key in life.again)
            require(key in life.again, "I1: nothing to decide again:", event)
            request = life.again.pop(key)
        else:
            record, request = self._own(event)
            life = self.pools[event["pool"]]
            require(life.recall(key[0]) is None, "I1: waits and was answered:", event)
            require(event["repeat"] == (key in life.waiting), "I1: a repeat?", event)
            offset = life.waiting[key].offset if event["repeat"] else record.offset
            require(event["request_offset"] == offset, "I1: of another request:", event)
            if event["repeat"]:
                return
            life.take(self.clock)
        capped = any(arm.cap is not None for arm in life.arms.values())
        busy = not (life.able(request, key[1]) - life.away())
        require(event["why"] == ("paused" if life.paused else "nobody-free"), "why?", event)
        require(life.paused or busy or capped, "I1: waits, but somebody is free:", event)
        require(life.settings.get("when_busy") != "refuse", "I1: may not wait:", event)
        life.waiting[key] = Waiter(request["offset"], request, self.clock)

    def _follow_epoch(self, event: Json) -> None:
        name, cause = event["pool"], self._cause
        if cause is None and event["complete"]:
            self._finish()  # a pool of the configuration file is applied between two inputs
        life = self.pools.get(name)
        if cause is not None and cause[0].topic == "controls":
            self._follow_control(event)
        elif life is None or (event["complete"] and event["epoch"] != life.epoch):
            asked = cause is not None and cause[1]["pool"] == name
            settings = self._rules.template if asked else self._rules.pools.get(name)
            require(settings is not None, "made by nobody:", event)
            self._configure(name, settings or {}, event)
        else:
            life.announce(event)
            if event["complete"] and name in self._rules.pools and cause is None:
                self._bury(life.expire(self.clock))

    def _configure(self, name: str, settings: Any, event: Json) -> None:
        """Make or change a pool, and apply the timeouts that are due by the new settings."""
        life = self.pools.get(name)
        if life is None:
            life = self.pools[name] = Life(name, self._rules.remembered)
        life.take_settings(settings)
        life.announce(event)
        self._bury(life.expire(self.clock))
        if event["complete"]:
            away = life.away()
            require(away == life.told_away, "away are", away, "not", life.told_away, event)

    def _follow_control(self, event: Json) -> None:
        """Apply a control that the service carried out."""
        require(self._cause is not None, "without a cause:", event)
        assert self._cause is not None
        (record, control), self._cause = self._cause, None
        name, action = control["pool"], control["action"]
        life = self.pools.get(name)
        epoch = action in ("configure", "set-arm", "remove-arm")
        kind = "epoch" if epoch else "removed" if action == "remove" else "control"
        require(event["type"] == kind, "no record of", control, event)
        if action == "configure":
            self._configure(name, control, event)
            wanted, told = control.get("arms"), event["arms"]
            if wanted is not None and not event["complete"]:  # the other arms did not change
                told = self.pools[name].arms
            require(wanted is None or list(told) == list(wanted), "arms?", event)
        else:
            assert life is not None
            self._obey(life, control, event)
        # A control takes effect first, and then its time passes.
        self._steps.append(self._give_up_gone)
        self._steps.append(lambda: self._elapse(self._time_of(record)))

    def _obey(self, life: Life, control: Json, event: Json) -> None:
        match control["action"]:
            case "remove":
                require(event["rounds"] == life.rounds, "removed?", event)
                for waiter in life.waiting.values():
                    self._take_later_letter(waiter, ("unknown-pool",))
                del self.pools[life.name]
            case "set-arm":
                require(event["arms"].keys() >= control["arms"].keys(), "arms?", event)
                life.take_arms(control["arms"])
                life.announce(event)
            case "remove-arm":
                require(set(event["left"]) == set(control["arms"]), "left?", event)
                life.announce(event)
            case "sleep":
                life.asleep |= set(control["arms"])
            case "wake":
                life.asleep -= set(control["arms"])
            case action:
                life.paused = action == "pause"


# -- the log --------------------------------------------------------------------------------------

Counts = dict[str, dict[str, tuple[int, int, int, float]]]
"""By pool and arm: pulls, pending, observed, and the sum of the rewards."""


def verify(
    client: LogClient, rules: Rules, *, exactly_once: bool = True, chained: bool = True
) -> Counts:
    """Check the invariants of a log whose inputs were all folded; return its counts.

    If delivery is not `exactly_once`, a record may be there several times. Then all copies must be
    equal, and each record is used once. With `chained` False, the hash chain is not checked, to
    test what the other invariants find.
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
        if chained:
            follow_chain(client, partition, chain.CHECKPOINT_EVERY)
    report = audit.finish()
    require(report.ok, "the audit:", report.first)
    verify_headers(client)
    return counts
