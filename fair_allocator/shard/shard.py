"""All pools of one partition: folds inputs into state, outgoing records and a journal entry.

Every change of state is an operation (see `journal`). Live, an operation is made from an input;
restored, it is read from the journal; either way it has the same effect, so that a shard
restored at a commit equals the one that was live.
"""

from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any, Final

from pydantic import ValidationError

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.requests import Assignment, RewardOutcome
from fair_allocator.errors import ConfigurationError
from fair_allocator.events import Control, Reason, read_request, read_reward
from fair_allocator.log.base import INPUTS, Outgoing, Record
from fair_allocator.shard.hosted import HOSTING_SETTINGS, HostedPool
from fair_allocator.shard.journal import (
    ENTRY,
    START_OF_CHAIN,
    Draft,
    Entry,
    in_pieces,
    to_json,
)
from fair_allocator.shard.outbox import Outbox, epochs_around
from fair_allocator.shard.settings import ShardSettings, Tally
from fair_allocator.shard.table import PoolTable
from fair_allocator.shard.unusable import Unusable, check_place, unreadable, unusable

# By names of their own: a global is looked up for every record.
_read_request: Final = read_request
_read_reward: Final = read_reward
_quoted: Final = encode_basestring
_COUNTED: Final = RewardOutcome.COUNTED
_ARM_LEFT: Final = RewardOutcome.ARM_LEFT


class Shard:
    """The pools of one partition, and the commit that is being put together."""

    def __init__(self, partition: int, settings: ShardSettings) -> None:
        self.partition = partition
        self.settings = settings
        self.table = PoolTable()
        self.offsets = dict.fromkeys(INPUTS, 0)
        self.seq = 0
        self.writer = 1
        self.chain = START_OF_CHAIN
        self.tally = Tally()
        self._begun = False
        self._outbox = Outbox(partition, self.offsets)
        self._begin()

    # -- a commit -----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._draft = Draft(
            self.seq + 1, self.writer, self.table.clock, self.offsets, self.settings.partitions
        )

    def take_published(self) -> list[Outgoing]:
        """Return what was decided since the last time, to be sent ahead of the commit."""
        return self._outbox.take()

    def cut(self) -> list[Outgoing]:
        """Close the commit: return the outgoing records left, the journal entry last."""
        draft = self._draft
        if not (draft or self._begun):
            return []
        self._begun = False
        value, self.chain = draft.encode(self.chain)
        self.seq = draft.seq
        self._begin()
        return [*self._outbox.take(), *in_pieces(self.partition, ENTRY, value)]

    def begin_at(self, offsets: Mapping[str, int]) -> None:
        """Start from where the inputs start that nobody has read yet; the next entry says so."""
        self._begun = self.offsets != offsets
        self.offsets.update(offsets)

    def adopt(
        self,
        seq: int,
        chain: str,
        writer: int,
        clock: int,
        offsets: Mapping[str, int],
        applied: Mapping[str, str],
        buckets: int,
    ) -> None:
        """Start from a snapshot; its pools are loaded into the table."""
        self.seq, self.chain, self.writer = seq, chain, writer + 1
        self.offsets.update(offsets)
        self.table.clock = clock
        self.table.applied = dict(applied)
        if buckets:
            self.table.regroup(buckets)
        self.table.touched.clear()
        self._begin()

    def apply(self, entry: Entry, chain: str, covered: Mapping[int, int]) -> None:
        """Take in an entry of the journal; `covered` tells up to where a bucket has it already."""
        table, pools = self.table, entry.pools
        table.clock = entry.clock
        lacking = [covered.get(table.bucket_of(name), 0) < entry.seq for name in pools]
        for operation in entry.ops:
            kind, place = operation[0], operation[1]
            if kind == "t":
                table.elapse(place)
            elif kind == "f":
                table.applied[pools[place]] = operation[2]
            elif lacking[place]:
                table.perform(pools[place], operation)
        self.offsets.update(entry.offsets)
        self.seq, self.chain = entry.seq, chain
        self.writer = max(self.writer, entry.writer + 1)
        self._begin()

    # -- inputs -------------------------------------------------------------------------------

    def fold(self, records: Iterable[Record], now: int) -> None:
        """Take inputs in, one by one; `now` is wall time, to tell records from the future."""
        offsets, draft = self.offsets, self._draft
        longest, latest = self.settings.record_bytes, now + self.settings.clock_skew
        for record in records:
            topic, _, offset, key, value, timestamp = record
            if offset < offsets[topic]:
                continue
            if topic != draft.topic:
                draft.begin_run(topic, offset)
            offsets[topic] = offset + 1
            try:
                if value is None or len(value) > longest or timestamp > latest:
                    raise unreadable(record, now, longest)
                if topic == "requests":
                    self._read_request(offset, key, value, timestamp)
                elif topic == "rewards":
                    self._read_reward(key, value, timestamp)
                else:
                    self._read_control(key, value, timestamp)
            except Unusable as refusal:
                self.tally.dead_letters[refusal.reason] += 1
                self._outbox.dead_letter(record, refusal.reason, str(refusal))

    def tick(self, now: int) -> None:
        """Let time pass without an input, if that makes anything expire."""
        if now > self.table.clock and self.table.is_due(now) and self._advance(now):
            self._outbox.tick(now)

    def retire(self, now: int) -> None:
        """Retire the pools that have been idle for as long as configured."""
        if self.settings.retire_after is not None:
            self.table.retire(now - self.settings.retire_after)

    def take_up(self, name: str, settings: Mapping[str, Any], fingerprint: str) -> None:
        """Make or change a pool of the configuration file, unless that was done before."""
        if self.table.applied.get(name) != fingerprint:
            try:
                self._configure(name, settings)
            except InvalidPool as error:
                raise ConfigurationError(f"pools.{name}: {error}") from error
            self.table.applied[name] = fingerprint
            self._draft.note("f", name, fingerprint)

    def _find(self, key: bytes | None, pool: str) -> HostedPool | None:
        """Return the pool a record is for, None if there is none yet; refuse a misplaced one."""
        hosted = self.table.hosted(pool)
        if hosted is None or key != hosted.key:
            check_place(key, pool, self.partition, self.settings)
        return hosted

    def _read_request(self, offset: int, key: bytes | None, value: bytes, timestamp: int) -> None:
        try:
            event = _read_request(value)
        except ValidationError as error:
            raise unusable(error) from None
        name, request_id = event["pool"], event["request_id"]
        table, settings = self.table, self.settings
        hosted = table.pools.get(name)
        if hosted is None or key != hosted.key:
            hosted = self._find(key, name) or self._on_demand(name)
        hosting = hosted.hosting
        if hosting.paused:
            raise Unusable(Reason.PAUSED, f"pool {name!r} is paused")
        if hosting.on_demand and hosting.fingerprint != settings.template_fingerprint:
            hosted = self._renewed(hosted)
        if timestamp > table.clock:
            self._advance(timestamp)
        if len(hosted.waiting) >= settings.pending_per_pool:
            self._make_room(name, hosted, request_id)
        if offset - hosted.stood >= settings.standing_every:
            self._stand_again(hosted, offset)
        made = table.assign(hosted, request_id)
        if hosted.epochs:
            noted = self._publish_with_epochs(hosted, made)
        else:
            noted = self._outbox.assignment(hosted, made)
        tally = self.tally
        if made.repeat:
            tally.repeats += 1
            return
        if made.reason == "fairness":
            tally.forced += 1
        else:
            tally.chosen += 1
        draft = self._draft
        draft.ops.append(f'["a",{draft.place(name)},{noted}]')
        if settings.retire_after is not None and hosted.hosting.on_demand:
            table.used(name)

    def _read_reward(self, key: bytes | None, value: bytes, timestamp: int) -> None:
        try:
            event = _read_reward(value)
        except ValidationError as error:
            raise unusable(error) from None
        name, request_id, reward = event["pool"], event["request_id"], event["value"]
        table = self.table
        hosted = table.pools.get(name)
        if hosted is None or key != hosted.key:
            hosted = self._find(key, name)
        if hosted is None:
            raise Unusable(Reason.UNKNOWN_POOL, f"there is no pool {name!r}")
        if timestamp > table.clock:
            self._advance(timestamp)
        outcome = table.reward(hosted, request_id, reward)
        if outcome is _COUNTED or outcome is _ARM_LEFT:
            draft, text = self._draft, repr(reward)  # not !r, at which compiled code is slow
            draft.ops.append(f'["r",{draft.place(name)},{_quoted(request_id)},{text}]')
        if outcome is not _COUNTED:
            self.tally.rewards_ignored[outcome.value] += 1

    def _read_control(self, key: bytes | None, value: bytes, timestamp: int) -> None:
        try:
            event = Control.model_validate_json(value)
        except ValidationError as error:
            raise unusable(error) from None
        name = event.pool
        hosted = self._find(key, name)
        if event.action == "configure":
            try:
                self._configure(
                    name, event.model_dump(exclude={"action", "pool"}, exclude_unset=True)
                )
            except InvalidPool as error:
                raise Unusable(Reason.REFUSED, str(error)) from error
        elif hosted is None:
            raise Unusable(Reason.UNKNOWN_POOL, f"there is no pool {name!r}")
        elif event.action == "remove":
            self.table.remove(name)
            self._draft.note("d", name)
            self._outbox.removed(name, hosted.pool.rounds)
        else:
            self.table.pause(name, event.action == "pause")
            self._draft.note("z", name, event.action == "pause")
            self._stand(hosted, self.offsets["requests"])
        if timestamp > self.table.clock:
            self._advance(timestamp)

    # -- what inputs do -----------------------------------------------------------------------

    def _advance(self, clock: int) -> int:
        expired = self.table.elapse(clock)
        self._draft.ops.append(f'["t",{clock}]')
        if expired:
            self.tally.expired["timeout"] += expired
        return expired

    def _make_room(self, name: str, hosted: HostedPool, request_id: str) -> None:
        """Let the oldest requests expire early, unless this one only repeats an answer."""
        pool = hosted.pool
        while pool.open >= self.settings.pending_per_pool and not pool.recall(request_id):
            oldest = hosted.oldest()
            assert oldest is not None  # noqa: S101  (as many are open)
            self.table.expire(hosted, oldest.request_id)
            self._draft.note("x", name, oldest.request_id)
            self.tally.expired["too many open"] += 1

    def _publish_with_epochs(self, hosted: HostedPool, made: Assignment) -> str:
        """Publish a decision between what came into force before it and after it."""
        before, after = epochs_around(hosted.epochs, made.round)
        for epoch in before:
            self._outbox.epoch(hosted.pool.name, epoch)
        noted = self._outbox.assignment(hosted, made)
        for epoch in after:
            self._outbox.epoch(hosted.pool.name, epoch)
        hosted.epochs.clear()
        return noted

    def _stand(self, hosted: HostedPool, position: int) -> None:
        """Publish where every arm stands, at a position in the requests."""
        name = hosted.pool.name
        self.table.stand(name, position)
        self._draft.note("s", name, position)
        self._outbox.standing(hosted.pool)

    def _stand_again(self, hosted: HostedPool, position: int) -> None:
        """Publish it once more, so that an audit can start here; the more arms, the more seldom."""
        if position - hosted.stood >= 10 * hosted.pool.size:
            self._stand(hosted, position)

    def _configure(
        self,
        name: str,
        settings: Mapping[str, Any],
        on_demand: bool = False,
        fingerprint: str = "",
    ) -> HostedPool:
        limits, arms = self.settings, settings.get("arms") or ()
        if len(arms) > limits.arms_per_pool:
            raise InvalidPool(
                f"{len(arms):,} arms; limits.arms_per_pool is {limits.arms_per_pool:,}"
            )
        given = {
            key: value
            for key, value in settings.items()
            if value is not None or key in HOSTING_SETTINGS
        }
        if name not in self.table:
            if full := self._is_full():
                raise InvalidPool(full)
            # Into the journal with them: another configuration must not make another pool of it.
            given |= {"seed": limits.seed, "remember": limits.remembered_per_pool}
        hosted = self.table.configure(name, given, on_demand, fingerprint)
        self._draft.note("p", name, given, on_demand, fingerprint)
        hosted.epochs.clear()
        self._stand(hosted, self.offsets["requests"])
        return hosted

    def _is_full(self) -> str | None:
        limit = self.settings.pools_per_shard
        return (
            f"limits.pools_per_shard ({limit:,}) is reached" if len(self.table) >= limit else None
        )

    def _on_demand(self, name: str) -> HostedPool:
        """Make a pool that was asked for and that nobody configured."""
        if self.settings.template is None:
            raise Unusable(
                Reason.UNKNOWN_POOL,
                f'there is no pool {name!r}; configure it, or a template, pools."*"',
            )
        if full := self._is_full():
            raise Unusable(Reason.REFUSED, full)
        return self._from_template(name)

    def _renewed(self, hosted: HostedPool) -> HostedPool:
        """Bring a pool on demand up to the template of today, if there is one."""
        return hosted if self.settings.template is None else self._from_template(hosted.pool.name)

    def _from_template(self, name: str) -> HostedPool:
        template, fingerprint = self.settings.template or {}, self.settings.template_fingerprint
        try:
            return self._configure(name, template, on_demand=True, fingerprint=fingerprint)
        except InvalidPool as error:
            message = f'the template, pools."*", cannot be applied to {name!r}: {error}'
            raise Unusable(Reason.REFUSED, message) from error

    # -- plain data ---------------------------------------------------------------------------

    def canonical(self) -> bytes:
        """Return the whole state as canonical bytes, without caches."""
        table = self.table
        head = [self.seq, table.clock, self.offsets, sorted(table.applied.items())]
        return _utf8(to_json(head)) + table.dump(sorted(table))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
