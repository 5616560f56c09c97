"""Shards, pools and arms as plain data, for `inspect`."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor, lcm
from typing import Any, NamedTuple

from fair_allocator.shard import Shard
from fair_allocator.shard.asked import Waiter
from fair_allocator.shard.hosted import HostedPool


def shard(shard: Shard) -> dict[str, Any]:
    """Return how far a shard has come: its journal entry, clock and offsets."""
    return {
        "partition": shard.partition,
        "entry": shard.seq,
        "clock": shard.table.clock,
        "offsets": dict(shard.offsets),
    }


def pools(shard: Shard) -> list[dict[str, Any]]:
    """Return every pool of a shard, sorted by name."""
    hosted = ((name, shard.table.hosted(name)) for name in sorted(shard.table))
    return [pool(name, each) for name, each in hosted if each is not None]


def pool(name: str, hosted: HostedPool) -> dict[str, Any]:
    """Return the figures of a pool, without its arms."""
    pool, hosting = hosted.pool, hosted.hosting
    guarantee, asleep = pool.guarantee, len(pool.sleeping)
    return {
        "pool": name,
        "rounds": pool.rounds,
        "arms": pool.size,
        "rule": guarantee.rule,
        "bound": guarantee.bound,
        "wanted_bound": guarantee.wanted,
        "worst_shortfall": pool.peak_violation(),
        "open": pool.open,
        "epoch": pool.epoch,
        "learner": pool.learner.name,
        "reward_timeout_ms": hosting.reward_timeout,
        "default_reward": hosting.default_reward,
        "on_demand": hosting.on_demand,
        "paused": hosting.paused,
        "requests": pool.requests,
        "bank": guarantee.bank,
        "wanted_bank": pool.bank,
        "longest_gap": pool.longest_gap(),
        "longest_gap_bound": _gap_bound(hosted),
        "asleep": asleep,
        "busy": len(pool.away) - asleep,
        "waiting": len(hosted.waiting),
        "when_busy": hosting.when_busy,
        "wait_timeout_ms": hosting.wait_timeout,
        "reassign": hosting.reassign,
        "rate": hosting.rate,
        "burst": hosting.burst,
    }


def _gap_bound(hosted: HostedPool) -> int | None:
    """Return the most slots that an arm of the smallest quota can go without a pull.

    None if the pool has no such bound.
    """
    guarantee = hosted.pool.guarantee
    if guarantee.window is None:
        return None
    quotas = [quota for quota in hosted.pool.quotas_in_force.values() if quota]
    return guarantee.longest_wait(min(quotas)) if quotas else None


def detail(hosted: HostedPool) -> dict[str, Any]:
    """Return the figures of a pool's arms (quota, entitlement, pulls), and the waiting requests."""
    return {
        "standing": _arms(hosted),
        "waiting_requests": [_waiter(each) for each in hosted.waiting.values()],
    }


class _Share(NamedTuple):
    """What one part of a split pool adds to the sums of an arm."""

    entitled: Fraction
    pulls: int
    allowed: Fraction | None
    """The most pulls that the part may owe the arm; None if it promises nothing."""


def split(name: str, parts: Sequence[HostedPool]) -> dict[str, Any]:
    """Return the sums over the parts of a split pool.

    The parts were read one after the other, not at the same moment. The bounds on
    what the arms may be owed are right even so.
    """
    shares: dict[str, list[_Share]] = {}
    for hosted in parts:
        for arm, share in _shares(hosted):
            shares.setdefault(arm, []).append(share)
    standing = [_joint(arm, several) for arm, several in shares.items()]
    tolerated = [arm["tolerated"] for arm in standing if arm["tolerated"] is not None]
    return {
        "pool": name,
        "parts": len(parts),
        "rounds": sum(hosted.pool.rounds for hosted in parts),
        "joint_bound": max(tolerated) if len(tolerated) == len(standing) > 0 else None,
        "standing": standing,
    }


def _shares(hosted: HostedPool) -> Iterator[tuple[str, _Share]]:
    pool, bound = hosted.pool, hosted.pool.guarantee.bound
    quotas, pulls = pool.quotas_in_force, pool.pulls
    for arm, entitled in pool.entitled.items():
        unit = lcm(quotas[arm].denominator, entitled.denominator)
        # A part is at most `bound` whole pulls short, so it owes less than `bound` + 1 pulls.
        allowed = None if bound is None else bound + 1 - Fraction(1, unit)
        yield arm, _Share(entitled, pulls[arm], allowed)


def _joint(arm: str, shares: Sequence[_Share]) -> dict[str, Any]:
    entitled = sum(share.entitled for share in shares)
    pulls = sum(share.pulls for share in shares)
    allowed = [share.allowed for share in shares if share.allowed is not None]
    return {
        "arm": arm,
        "entitled": str(entitled),
        "pulls": pulls,
        "shortfall": floor(entitled) - pulls,
        "tolerated": floor(sum(allowed)) if len(allowed) == len(shares) else None,
    }


def _arms(hosted: HostedPool) -> list[dict[str, Any]]:
    pool, tags = hosted.pool, hosted.tags
    quotas, entitled, pulls = pool.quotas_in_force, pool.entitled, pool.pulls
    shortfalls, means, pending, gaps = pool.shortfalls(), pool.means, pool.pending, pool.gaps()
    caps, most, asleep, away = pool.caps, pool.max_open, pool.sleeping, pool.away
    return [
        {
            "arm": name,
            "quota": str(quotas[name]),
            "entitled": str(entitled[name]),
            "pulls": pulls[name],
            "shortfall": shortfalls[name],
            "mean": means[name],
            "open": pending[name],
            "gap": gaps[name],
            "max_open": most.get(name),
            "cap": str(caps[name]) if name in caps else None,
            "state": "asleep" if arm in asleep else "busy" if arm in away else None,
            "tags": sorted(tags.get(name, ())),
        }
        for arm, name in enumerate(pool.arms)
    ]


def _waiter(each: Waiter) -> dict[str, Any]:
    """Return a waiting request; its times are in milliseconds."""
    asked = each.asked
    return {
        "request_id": asked.request_id,
        "since": each.since,
        "offset": asked.offset,
        "slots": asked.event.get("slots", 1),
        "eligible": asked.event.get("eligible"),
        "needs": asked.event.get("needs"),
        "instead_of": each.instead_of or None,
    }
