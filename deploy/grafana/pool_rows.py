"""What the dashboard shows of the pools: fairness and learning.

A pool lives on one instance at a time, so `max by (pool)` only drops the instance's label; with
log.partitioner = "none" it is the worst of the pool's parts.
Every query gives at least one sample on a live service.
"""

from typing import Final

from deploy.grafana.panel import HERE, POOL, Kind, Panel, Query, Row

_EXCESS: Final = f"pool:fair_allocator_fairness_excess:max{POOL}"
_WORST_ARMS: Final = f"topk(50, fair_allocator_fairness_violation{POOL})"


def _tile(
    title: str, description: str, unit: str, *queries: Query, red_from: float | None = None
) -> Panel:
    return Panel(title, description, unit, queries, Kind.TILE, 4, 4, red_from)


GLANCE: Final = Row(
    "At a glance",
    (
        Panel(
            "Guarantees",
            "Pools with an arm further behind than the bound in force allows, over all pools. "
            "Anything but Kept is a defect.",
            "none",
            (Query(f"sum(fair_allocator_pools_in_violation{HERE})", "pools in violation"),),
            Kind.TILE,
            4,
            4,
            red_from=1,
            kept_text="Kept",
        ),
        _tile(
            "Nearest to its bound",
            "Violation minus the bound in force, of the pool that is nearest to breaking its "
            "promise, and that pool's bound. Above 0 it is broken.",
            "none",
            Query(f"max({_EXCESS})", "violation minus bound"),
            Query(
                f"max(fair_allocator_fairness_tolerance{POOL} "
                f"and on (namespace, job, pool) topk(1, {_EXCESS}))",
                "bound",
            ),
        ),
        _tile(
            "Arms in violation",
            "Arms that are further behind than the bound in force allows.",
            "none",
            Query(f"sum(fair_allocator_arms_in_violation{POOL})", "arms"),
            red_from=1,
        ),
        _tile(
            "Lag",
            "How long ago what is read now was written, in the topic that is furthest behind.",
            "s",
            Query(f"max(fair_allocator_consumer_lag_seconds{HERE})", "lag"),
            red_from=30,
        ),
        _tile(
            "Assignments",
            "Decisions a second over the last minute, of all pools, whichever are chosen.",
            "ops",
            Query(f"sum(rate(fair_allocator_decisions_total{HERE}[1m]))", "rate"),
        ),
        _tile(
            "Dead letters",
            "Inputs of the last hour that could not be used.",
            "none",
            Query(f"sum(increase(fair_allocator_dead_letters_total{HERE}[1h]))", "dead letters"),
            red_from=1,
        ),
    ),
)

FAIRNESS: Final = Row(
    "Fairness",
    (
        Panel(
            "Worst violation against tolerance",
            "Worst floor(entitled) - pulls of each pool. It may touch the dashed bound in force, "
            "never cross it; below 0 every arm is ahead of what it is owed.",
            "none",
            (
                Query(f"max by (pool) (fair_allocator_fairness_violation_max{POOL})", "{{pool}}"),
                Query(
                    f"max by (pool) (fair_allocator_fairness_tolerance{POOL})",
                    "{{pool}} tolerance",
                    limit=True,
                ),
            ),
            width=12,
        ),
        Panel(
            "Peak violation",
            "The worst in each pool since its epoch in force began, exact also between scrapes. "
            "It may touch the dashed bound in force, never cross it.",
            "none",
            (
                Query(f"max by (pool) (fair_allocator_fairness_violation_peak{POOL})", "{{pool}}"),
                Query(
                    f"max by (pool) (fair_allocator_fairness_tolerance{POOL})",
                    "{{pool}} tolerance",
                    limit=True,
                ),
            ),
            width=12,
        ),
        Panel(
            "Share against quota, the 50 arms furthest behind",
            "What each arm was promised and what it got, with its violation in pulls. A share "
            "below the quota is normal by less than a pull plus the tolerance, and for an arm that "
            "was away or not named.",
            "percentunit",
            (
                Query(
                    f"max by (pool, arm) (fair_allocator_quota_ratio{POOL}) "
                    f"and on (pool, arm) {_WORST_ARMS}",
                    "quota",
                ),
                Query(
                    f"max by (pool, arm) (fair_allocator_share_ratio{POOL}) "
                    f"and on (pool, arm) {_WORST_ARMS}",
                    "share",
                ),
                Query(f"max by (pool, arm) ({_WORST_ARMS})", "violation"),
            ),
            Kind.TABLE,
            width=12,
        ),
        Panel(
            "Pools nearest their bound",
            "Violation minus the bound in force, the ten nearest; above 0 is broken.",
            "none",
            (Query(f"topk(10, {_EXCESS})", "{{pool}}"),),
            Kind.BARS,
            width=6,
            red_from=1,
        ),
        Panel(
            "Rules in force",
            "How many pools are served by which rule; none guarantees nothing.",
            "none",
            (Query(f"count by (rule) (fair_allocator_guarantee_info{POOL})", "{{rule}}"),),
            Kind.BARS,
            width=6,
        ),
    ),
)

LEARNING: Final = Row(
    "Learning",
    (
        Panel(
            "Forced and learned",
            "Assignments a second by reason: because an arm was owed, or the learner's choice.",
            "ops",
            (
                Query(
                    f"sum by (reason) (pool_reason:fair_allocator_assignments:rate1m{POOL})",
                    "{{reason}}",
                ),
            ),
            Kind.STACK,
        ),
        Panel(
            "Regret and r-regret",
            "Estimated from the observed means: regret against always pulling the best arm, "
            "r-regret against the best that keeps the quotas, and the theorem's bound on it.",
            "none",
            (
                Query(f"sum(fair_allocator_regret_estimate{POOL})", "regret"),
                Query(f"sum(fair_allocator_r_regret_estimate{POOL})", "r-regret"),
                Query(f"sum(fair_allocator_r_regret_bound{POOL})", "bound on r-regret", limit=True),
            ),
        ),
        Panel(
            "Mean reward",
            "Of the rewards of the last 5 minutes, by pool, over all its arms.",
            "none",
            (
                Query(
                    f"sum by (pool) (rate(fair_allocator_pool_reward_sum_total{POOL}[5m])) / "
                    f"sum by (pool) (rate(fair_allocator_pool_rewards_total{POOL}[5m]))",
                    "{{pool}}",
                ),
            ),
        ),
        Panel(
            "Best arms by estimate",
            "The ten arms with the highest estimated mean reward.",
            "none",
            (
                Query(
                    f"topk(10, max by (pool, arm) (fair_allocator_mean_reward_estimate{POOL}))",
                    "{{pool}} {{arm}}",
                ),
            ),
            Kind.BARS,
        ),
        Panel(
            "Rewards counted and ignored",
            "Counted ones, and by reason those that came late, twice, or for no known request.",
            "ops",
            (
                Query(f"sum(rate(fair_allocator_pool_rewards_total{POOL}[1m]))", "counted"),
                Query(
                    f"sum by (reason) (rate(fair_allocator_rewards_ignored_total{HERE}[1m]))",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            "Waiting for a reward",
            "Assignments whose reward has not come, by pool, and by reason those a second that are "
            "no longer waited for.",
            "none",
            (
                Query(f"sum by (pool) (fair_allocator_pending_rewards{POOL})", "{{pool}}"),
                Query(
                    f"sum by (reason) (rate(fair_allocator_expired_requests_total{HERE}[1m]))",
                    "given up: {{reason}}",
                ),
            ),
        ),
    ),
)
