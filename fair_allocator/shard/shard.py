"""The pools of one partition: read the inputs of the partition, and apply them to the pools.

To *fold* an input means to apply it. Folding changes the state of the shard. It also makes outgoing
records and a part of the next journal entry. Every change of the state is an operation (see
`operations`), and the journal entry has these operations. A restore reads them from the journal and
applies them again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from fair_allocator.core.errors import InvalidPool, InvalidRequest, InvalidReward, NobodyFree
from fair_allocator.core.general import MAX_SLOTS
from fair_allocator.core.requests import Request, RewardOutcome
from fair_allocator.errors import DamagedPool
from fair_allocator.events import (
    Configure,
    Decline,
    NamedArms,
    PoolControl,
    Refusal,
    SetArms,
    controls,
)
from fair_allocator.events.inputs import (
    REQUEST_FIELDS,
    REWARD_FIELDS,
    ControlInput,
    check_request,
    check_reward,
    unmeant,
    unmeant_control,
)
from fair_allocator.events.reading import usual_request, usual_reward
from fair_allocator.log.records import Headers, Record
from fair_allocator.log.tracing import passed_on
from fair_allocator.shard.asked import Asked
from fair_allocator.shard.controls import Controlling
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.memory import most_bytes
from fair_allocator.shard.operations import Declined, Rewarded
from fair_allocator.shard.unusable import Unusable, check_place, unreadable, unusable

# Aliases are faster: compiled code looks up globals on each use.
_passed_on: Final = passed_on
_COUNTED: Final = RewardOutcome.COUNTED
_ARM_LEFT: Final = RewardOutcome.ARM_LEFT


class Shard(Controlling):
    """The pools of one partition, and the changes for the next commit."""

    def fold(self, records: Sequence[Record], now: int) -> None:
        """Fold inputs one by one. `now` is the time of this machine's clock, in ms since 1970.

        The timestamps of the records move the shard's time. A record whose timestamp is far ahead
        of `now` is refused. A timestamp that is a little ahead moves the shard's time beyond `now`.
        But if this would end a timeout, the record counts as of an earlier time (see `hold_back`).
        """
        offsets, draft = self.offsets, self._draft
        longest, latest = self.settings.record_bytes, now + self.settings.clock_skew
        for place, record in enumerate(records):
            topic, _, offset, key, value, timestamp, headers = record
            if offset < offsets[topic]:
                continue
            far_ahead = timestamp > latest
            if timestamp > now and not far_ahead and not self._is_held_back(record):
                clock = max(now, self.table.clock)
                if timestamp > clock and self.table.is_due(timestamp):
                    self.hold_back(clock, _after(records[place:], offsets))
            if self._held is not None and self._is_held_back(record):
                timestamp = min(timestamp, self._held[0])
            if topic != draft.topic:
                draft.begin_run(topic, offset)
            offsets[topic] = offset + 1
            try:
                if value is None or len(value) > longest or far_ahead:
                    raise unreadable(record, now, longest)
                if topic == "requests":
                    go_on = _passed_on(headers) if headers else headers
                    self._read_request(offset, key, value, timestamp, go_on)
                elif topic == "rewards":
                    self._read_reward(key, value, timestamp)
                else:
                    self._read_control(key, value, timestamp)
            except Unusable as refusal:
                self.tally.dead_letters[refusal.reason] += 1
                self._outbox.dead_letter(record, refusal.reason, str(refusal))

    def hold_back(self, clock: int, until: Mapping[str, int]) -> None:
        """Let inputs below these offsets with a timestamp after `clock` count as of `clock`.

        The shard publishes `clock` and the offsets, so that a replay uses the same times.
        """
        self._held = clock, until
        self._outbox.tick(clock, until)
        if clock > self.table.clock:
            self._advance(clock)

    def _is_held_back(self, record: Record) -> bool:
        return self._held is not None and record.offset < self._held[1][record.topic]

    def tick(self, now: int) -> None:
        """If something is due by `now`, move the shard's time to `now` without an input."""
        if now > self.table.clock and self.table.is_due(now):
            self._outbox.tick(now)
            self._advance(now)

    def retire(self, now: int) -> None:
        """Retire the pools that have been idle for as long as configured."""
        if self.settings.retire_after is not None:
            self.table.retire(now - self.settings.retire_after)

    def _find(self, key: bytes | None, pool: str) -> HostedPool | None:
        """Return a record's pool, or None if it does not exist yet.

        Refuse a record with a wrong key or on a wrong partition.
        """
        try:
            hosted = self.table.hosted(pool)
        except DamagedPool as error:
            raise Unusable(Refusal.REFUSED, str(error)) from error
        if hosted is None or key != hosted.key:
            check_place(key, pool, self.partition, self.settings)
        return hosted

    def _known(self, key: bytes | None, pool: str) -> HostedPool:
        """Return a record's pool; refuse a record whose pool does not exist."""
        hosted = self._find(key, pool)
        if hosted is None:
            raise Unusable(Refusal.UNKNOWN_POOL, f"there is no pool {pool!r}")
        return hosted

    def _check_fields(self, event: dict[str, Any], known: frozenset[str]) -> None:
        """Refuse an event with an unknown field that looks like a misspelt field of ours."""
        if known.issuperset(event):
            return
        wrong = unmeant(event, known, self.settings.unknown_fields)
        if wrong is not None:
            raise Unusable(Refusal.BAD_EVENT, wrong)

    # -- requests -----------------------------------------------------------------------------

    def _unusual_request(self, value: bytes) -> dict[str, Any]:
        """Return a request that has unusual fields, or refuse it."""
        try:
            event = check_request(value)
        except ValidationError as error:
            raise unusable(error) from None
        self._check_fields(event, REQUEST_FIELDS)
        if event.get("eligible") is not None and event.get("needs") is not None:
            raise Unusable(Refusal.BAD_EVENT, "eligible and needs: give one of them, not both")
        return event

    def _read_request(
        self, offset: int, key: bytes | None, value: bytes, timestamp: int, headers: Headers
    ) -> None:
        event = usual_request(value)
        if event is None:
            event = self._unusual_request(value)
        name, request_id = event["pool"], event["request_id"]
        table, settings = self.table, self.settings
        plain = len(event) == 2
        hosted = table.pools.get(name)
        if hosted is None or key != hosted.key:
            hosted = self._find(key, name) or self._on_demand(name, _most_of(event, value))
        memory = table.memory
        if memory.taken > self._easy_bytes and memory.room(hosted) < _most_of(event, value):
            self._refuse_more(hosted, request_id)
        if hosted.hosting.on_demand and hosted.hosting.fingerprint != settings.template_fingerprint:
            hosted = self._renewed(hosted)
        if timestamp > table.clock:
            self._advance(timestamp)
        if hosted.pace is not None and hosted.pace.is_full(table.clock):
            self._refuse_at_rate(hosted, request_id, headers)
        if len(hosted.open) >= settings.pending_per_pool:
            self._make_room(hosted, request_id)
        if offset - hosted.stood >= settings.standing_every:
            self._stand_again(hosted, offset)
        asked: Asked | None = None
        if hosted.hosting.reassign:
            asked = Asked(offset, timestamp, key, value, headers, event)
        try:
            request = Request(request_id) if plain else hosted.request(event)
            made = self._propose(hosted, request)
        except NobodyFree:
            asked = asked or Asked(offset, timestamp, key, value, headers, event)
            self._wait_or_refuse(hosted, asked)
            return
        except InvalidRequest as error:
            self._outbox.refused(name, request_id, Refusal.REFUSED, headers)
            raise Unusable(Refusal.REFUSED, str(error)) from error
        if made.repeat:
            self.tally.repeats += 1
            self._outbox.repeat(hosted, made, headers)
            return
        self._decide(hosted, made, headers, asked)
        if hosted.waiting and hosted.pool.caps:
            self._serve_waiting(hosted)
        if settings.retire_after is not None and hosted.hosting.on_demand:
            table.used(name)

    def _refuse_more(self, hosted: HostedPool, request_id: str) -> None:
        """Refuse a request for which there is no memory, unless the pool already knows it.

        Call this before anything changes, even the time. So a replay of the audit can skip the
        request.
        """
        if not hosted.knows(request_id):
            raise Unusable(
                Refusal.NO_MEMORY,
                f"the requests of pool {hosted.pool.name!r} take {hosted.counted:,} bytes, and "
                f"there is no room for this one: limits.memory_bytes is "
                f"{self.settings.memory_bytes:,}, of which {self.table.memory.taken:,} are taken",
            )

    def _refuse_at_rate(self, hosted: HostedPool, request_id: str, headers: Headers) -> None:
        """Refuse a request that exceeds the pool's rate, unless the pool already knows it."""
        if not hosted.knows(request_id):
            name, hosting = hosted.pool.name, hosted.hosting
            self._outbox.refused(name, request_id, Refusal.TOO_MANY_REQUESTS, headers)
            raise Unusable(
                Refusal.TOO_MANY_REQUESTS,
                f"pool {name!r} takes {hosting.rate:,} requests a second, and "
                f"{hosting.burst or hosting.rate:,} at once",
            )

    def _wait_or_refuse(self, hosted: HostedPool, asked: Asked) -> None:
        """Let a request wait that no arm can take now, or refuse it. It may already be waiting."""
        name, request_id, headers = hosted.pool.name, asked.request_id, asked.headers
        waiter = hosted.waiting.get((request_id, ""))
        if waiter is not None:
            self.tally.repeats += 1
            paused = hosted.hosting.paused
            self._outbox.waiting(name, waiter.asked, paused, headers, repeat=True)
            return
        try:
            self._wait(hosted, asked)
        except Unusable as refusal:
            self._outbox.refused(name, request_id, refusal.reason, headers)
            raise

    # -- rewards ------------------------------------------------------------------------------

    def _read_reward(self, key: bytes | None, value: bytes, timestamp: int) -> None:
        event = usual_reward(value)
        if event is None:
            try:
                event = check_reward(value)
            except ValidationError as error:
                if b'"declined"' in value:
                    self._read_decline(key, value, timestamp)
                    return
                raise unusable(error) from None
            self._check_fields(event, REWARD_FIELDS)
        name, request_id = event["pool"], event["request_id"]
        arm = event["arm"] if len(event) > 3 and "arm" in event else None
        table = self.table
        hosted = table.pools.get(name)
        if hosted is None or key != hosted.key:
            hosted = self._known(key, name)
        if timestamp > table.clock:
            self._advance(timestamp)
        operation = Rewarded(request_id, event["value"], arm)
        try:
            outcome = operation.apply(table, name)
        except InvalidReward as error:
            raise Unusable(Refusal.REFUSED, str(error)) from error
        if outcome is _COUNTED or outcome is _ARM_LEFT:
            self._draft.note(name, operation)
            if hosted.waiting:
                self._serve_waiting(hosted, hosted.pool.whose(request_id, arm))
        if outcome is not _COUNTED:
            self.tally.rewards_ignored[outcome.value] += 1

    def _read_decline(self, key: bytes | None, value: bytes, timestamp: int) -> None:
        try:
            event = Decline.model_validate_json(value)
        except ValidationError as error:
            raise unusable(error) from None
        self._check_fields(event.model_extra or {}, frozenset(Decline.model_fields))
        name, request_id = event.pool, event.request_id
        hosted = self._known(key, name)
        if timestamp > self.table.clock:
            self._advance(timestamp)
        try:
            arm = hosted.pool.whose(request_id, event.arm)
        except InvalidReward as error:
            raise Unusable(Refusal.REFUSED, str(error)) from error
        operation = Declined(request_id, arm)
        outcome = operation.apply(self.table, name)
        if outcome is not _COUNTED:
            self.tally.rewards_ignored[outcome.value] += 1
            return
        self._draft.note(name, operation)
        self.tally.declined += 1
        if request_id in hosted.asked and arm is not None:
            self._decide_again(hosted, request_id, arm)
        self._serve_waiting(hosted, arm)

    # -- controls -----------------------------------------------------------------------------

    def _read_control(self, key: bytes | None, value: bytes, timestamp: int) -> None:
        try:
            event = controls.validate_json(value)
        except ValidationError as error:
            raise unusable(error) from None
        wrong = unmeant_control(event, self.settings.unknown_fields)
        if wrong is not None:
            raise Unusable(Refusal.BAD_EVENT, wrong)
        verified = self._is_verified(key, event, value, timestamp)
        self._outbox.by, self._outbox.verified = event.by, verified
        try:
            self._obey(key, event)
        except (InvalidPool, InvalidRequest) as error:
            raise Unusable(Refusal.REFUSED, str(error)) from error
        finally:
            self._outbox.by, self._outbox.verified = None, False
        self.tally.controls.append((event.action, event.pool, event.by, verified))
        if timestamp > self.table.clock:
            self._advance(timestamp)

    def _obey(
        self, key: bytes | None, event: Configure | PoolControl | SetArms | NamedArms
    ) -> None:
        """Carry out a control."""
        name = event.pool
        if isinstance(event, Configure):
            self._find(key, name)
            said = {"action", "pool", *ControlInput.model_fields, *(event.model_extra or {})}
            settings = event.model_dump(exclude=said, exclude_unset=True)
            self._configure(name, settings, by_control=True)
            return
        hosted = self._known(key, name)
        if isinstance(event, SetArms):
            arms = {
                arm: settings.model_dump(
                    exclude={"extensions", *(settings.model_extra or {})}, exclude_unset=True
                )
                for arm, settings in event.arms.items()
            }
            self._set_arms(hosted, arms)
        elif isinstance(event, NamedArms):
            if event.action == "remove-arm":
                self._remove_arms(hosted, event.arms)
            else:
                self._let_sleep(hosted, event.arms, event.action == "sleep")
        elif event.action == "remove":
            self._remove(hosted)
        else:
            self._pause(hosted, event.action == "pause")


def _most_of(event: dict[str, Any], value: bytes) -> int:
    """Return the most bytes of memory that a request can take."""
    return most_bytes(len(value), min(event.get("slots") or 1, MAX_SLOTS))


def _after(records: Sequence[Record], offsets: Mapping[str, int]) -> dict[str, int]:
    """Return the offsets after these records, by topic."""
    after = dict(offsets)
    for record in records:
        after[record.topic] = record.offset + 1
    return after
