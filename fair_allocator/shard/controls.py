"""Make and change pools: by controls, by the configuration file, and on demand.

A pool is made *on demand*, from a template, when a request names a pool that does not exist. A
pool's *standing* is the quota, entitlement and pulls of its arms.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic_core import from_json

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool, InvalidRequest
from fair_allocator.core.unchanged import is_set_to
from fair_allocator.errors import ConfigurationError
from fair_allocator.events import Control, Refusal
from fair_allocator.shard.deciding import Deciding
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.hosting import NULLABLE
from fair_allocator.shard.operations import (
    ArmsRemoved,
    ArmsSet,
    Configured,
    Paused,
    Removed,
    SignatureUsed,
    Slept,
    Stood,
    TakenUp,
)
from fair_allocator.shard.table import Elapsed
from fair_allocator.shard.unusable import Unusable, check_place
from fair_allocator.signing import NotSigned
from fair_allocator.text import part_in

_FOR_EVERY_ARM: Final = frozenset(("arms", "caps", "requests"))
"""After a change of these settings, the shard publishes the standing of every arm."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Controlling(Deciding):
    """The part of a shard that makes and changes pools."""

    # -- senders ------------------------------------------------------------------------------

    def _is_verified(self, key: bytes | None, event: Control, value: bytes, timestamp: int) -> bool:
        """Tell whether the sender of a control signed it; refuse a signature that does not count.

        A signature counts once, even if the pool then refuses the control.
        """
        senders = self.settings.senders
        if senders is None:
            return False
        try:
            signer = senders.signer_of(from_json(value), timestamp)
        except NotSigned as error:
            raise Unusable(Refusal.NOT_SIGNED, str(error)) from None
        if signer is None:
            return False
        check_place(key, event.pool, self.partition, self.settings)
        signed_at, last = event.signed_at or 0, self.table.signed_at.get(signer, 0)
        if signed_at <= last:
            raise Unusable(
                Refusal.NOT_SIGNED,
                f"the sender {event.by!r} signed it at {signed_at}, and the last control of the "
                f"key {signer!r} that counted here at {last}: this is a copy of a control, or it "
                "came too late; sign it again",
            )
        self._do(event.pool, SignatureUsed(signer, signed_at))
        return True

    # -- whole pools --------------------------------------------------------------------------

    def take_up(self, name: str, settings: Mapping[str, Any], fingerprint: str) -> None:
        """Make or change a pool as the configuration file says, unless this was already done.

        `fingerprint` is a hash of the settings in the file. The shard remembers the last one that
        it applied.
        """
        if self.table.applied.get(name) != fingerprint:
            try:
                self._configure(name, settings)
            except InvalidPool as error:
                raise ConfigurationError(f"pools.{name}: {error}") from error
            self._do(name, TakenUp(fingerprint))

    def _configure(
        self,
        name: str,
        settings: Mapping[str, Any],
        on_demand: bool = False,
        fingerprint: str = "",
        by_control: bool = False,
    ) -> HostedPool:
        self._check_size(len(settings.get("arms") or ()))
        given = {
            key: value for key, value in settings.items() if value is not None or key in NULLABLE
        }
        if name not in self.table:
            if wrong := self._is_full() or self._is_misrouted(name, on_demand):
                raise InvalidPool(wrong)
            # The journal stores these values, so that a later configuration does not change past
            # decisions.
            given["seed"] = self.settings.seed
            given["remember"] = self.settings.remembered_per_pool
        whole = not by_control or self._changes_every_arm(name, given)
        elapsed = self._do(name, Configured(given, on_demand, fingerprint))
        hosted = self.table.pools[name]
        if whole:
            hosted.forget_epochs()
            self._stand(hosted, self.offsets["requests"])
        else:
            self._publish_change(hosted, (), (), ())
        if isinstance(elapsed, Elapsed):
            self._react(elapsed)
        self._serve_waiting(hosted)
        return hosted

    def _changes_every_arm(self, name: str, given: Mapping[str, Any]) -> bool:
        """Tell whether the standing of every arm must be published after a change."""
        hosted = self.table.hosted(name)
        decisive = {key: given[key] for key in _FOR_EVERY_ARM if key in given}
        return hosted is None or (bool(decisive) and not is_set_to(hosted.pool, decisive))

    def _check_size(self, count: int) -> None:
        limit = self.settings.arms_per_pool
        if count > limit:
            raise InvalidPool(f"{count:,} arms are too many; limits.arms_per_pool is {limit:,}")

    def _is_full(self) -> str | None:
        limit = self.settings.pools_per_shard
        return (
            f"limits.pools_per_shard ({limit:,}) is reached" if len(self.table) >= limit else None
        )

    def _is_misrouted(self, name: str, on_demand: bool) -> str | None:
        """Return what is wrong with a new pool's name, or None.

        A pool that is split cannot be made under its own name: events must name one of its parts.
        """
        part = part_in(name)
        pool, parts = (name, 1) if part is None else (part.pool, part.parts)
        split = self.settings.split.get(pool)
        if split is None or (split == parts and not on_demand):
            return None
        return (
            f"pool {pool!r} is split into {split} parts, and {name!r} is not the name of one: "
            "send each event to the part of its request, see docs/splitting.md"
        )

    def _on_demand(self, name: str, request_bytes: int) -> HostedPool:
        """Make a pool from the template, for a request of `request_bytes` bytes that names it."""
        if misrouted := self._is_misrouted(name, on_demand=True):
            raise Unusable(Refusal.UNKNOWN_POOL, misrouted)
        if self.settings.template is None:
            raise Unusable(
                Refusal.UNKNOWN_POOL,
                f'there is no pool {name!r}; configure it, or configure a template, pools."*"',
            )
        if full := self._is_full():
            raise Unusable(Refusal.REFUSED, full)
        memory = self.table.memory
        if memory.room_for_pool(len(self.settings.template["arms"])) < request_bytes:
            raise Unusable(
                Refusal.NO_MEMORY,
                f"pools made on demand already take their part of limits.memory_bytes "
                f"({memory.limit:,})",
            )
        return self._from_template(name)

    def _renewed(self, hosted: HostedPool) -> HostedPool:
        """Change a pool that was made on demand to the settings of the current template, if any."""
        return hosted if self.settings.template is None else self._from_template(hosted.pool.name)

    def _from_template(self, name: str) -> HostedPool:
        template, fingerprint = self.settings.template or {}, self.settings.template_fingerprint
        try:
            return self._configure(name, template, on_demand=True, fingerprint=fingerprint)
        except InvalidPool as error:
            message = f'the template, pools."*", cannot be applied to {name!r}: {error}'
            raise Unusable(Refusal.REFUSED, message) from error

    def _remove(self, hosted: HostedPool) -> None:
        """Remove a pool. Its waiting requests become dead letters."""
        name = hosted.pool.name
        for waiter in hosted.waiting.values():
            message = f"pool {name!r} was removed"
            self._bury(waiter.asked, Refusal.UNKNOWN_POOL, message, waiter.instead_of)
        self._do(name, Removed())
        self._outbox.removed(name, hosted.pool.rounds)

    def _pause(self, hosted: HostedPool, paused: bool) -> None:
        """Pause a pool, or resume it and decide the requests that wait."""
        self._do(hosted.pool.name, Paused(paused))
        self._outbox.control(hosted.pool.name, "pause" if paused else "resume", ())
        self._serve_waiting(hosted)

    # -- arms ---------------------------------------------------------------------------------

    def _set_arms(self, hosted: HostedPool, arms: dict[str, dict[str, Any]]) -> None:
        """Add or change some arms."""
        known = hosted.pool.columns.index
        self._check_size(len(known) + sum(arm not in known for arm in arms))
        self._do(hosted.pool.name, ArmsSet(arms))
        uncapped = [arm for arm, said in arms.items() if said.get("cap", 0) is None]
        self._publish_change(hosted, arms, (), uncapped)
        self._serve_waiting(hosted)

    def _remove_arms(self, hosted: HostedPool, names: list[str]) -> None:
        """Remove some arms."""
        left = tuple(dict.fromkeys(names))
        self._do(hosted.pool.name, ArmsRemoved(list(left)))
        self._publish_change(hosted, (), left, ())
        self._serve_waiting(hosted)

    def _publish_change(
        self,
        hosted: HostedPool,
        touched: Collection[str],
        left: tuple[str, ...],
        uncapped: Collection[str],
    ) -> None:
        """Publish what came into force when a few arms were changed."""
        named = dict.fromkeys(touched)
        for epoch in hosted.epochs:
            named.update(dict.fromkeys(epoch.arms))
        hosted.forget_epochs()
        self._outbox.changed_arms(hosted.pool, named, left, uncapped)

    def _let_sleep(self, hosted: HostedPool, names: list[str], asleep: bool) -> None:
        """Send some arms to sleep, or wake them.

        The pool's next assignment record says which arms went away or came back.
        """
        pool = hosted.pool
        for name in names:
            if name not in pool.columns.index:
                raise InvalidRequest(f"the pool has no arm {name!r}")
        if pool.requests == "plain":
            raise InvalidRequest('arms can sleep only in a pool with requests = "any"')
        self._do(pool.name, Slept(names, asleep))
        self._outbox.control(pool.name, "sleep" if asleep else "wake", names)
        if not asleep:
            self._serve_waiting(hosted)

    # -- standing -----------------------------------------------------------------------------

    def _stand(self, hosted: HostedPool, position: int) -> None:
        """Publish the standing of every arm; store the position in the requests at that time."""
        self._outbox.standing(hosted.pool)
        self._do(hosted.pool.name, Stood(position))

    def _stand_again(self, hosted: HostedPool, position: int) -> None:
        """Publish the standing of every arm if it is time again, so that an audit can start there.

        The more arms a pool has, the less often this happens.
        """
        if position - hosted.stood >= 10 * hosted.pool.size:
            self._stand(hosted, position)
