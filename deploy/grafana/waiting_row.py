"""What the dashboard shows of requests that nobody can take, and of arms that are away."""

from typing import Final

from deploy.grafana.panel import HERE, POOL, Kind, Panel, Query, Row

_OLDEST: Final = f"fair_allocator_oldest_waiting_timestamp_seconds{POOL}"

WAITING: Final = Row(
    "Waiting",
    (
        Panel(
            "Requests that wait",
            "Requests that nobody can take now, by pool: every arm that could is asleep, busy or "
            "at its cap, or the pool is paused.",
            "none",
            (Query(f"sum by (pool) (fair_allocator_waiting_requests{POOL})", "{{pool}}"),),
        ),
        Panel(
            "Longest wait of a request",
            "For how long the oldest request that waits has waited, in the ten pools where that is "
            "longest; empty while none waits.",
            "s",
            (Query(f"topk(10, time() - min by (pool) ({_OLDEST}))", "{{pool}}"),),
            Kind.BARS,
            red_from=600,
        ),
        Panel(
            "Waits and declines",
            "Requests a second that began to wait, and assignments a second that an arm declined, "
            "in all pools.",
            "ops",
            (
                Query(f"sum(rate(fair_allocator_waited_requests_total{HERE}[1m]))", "waits"),
                Query(
                    f"sum(rate(fair_allocator_declined_assignments_total{HERE}[1m]))", "declines"
                ),
            ),
        ),
        Panel(
            "Arms that are away",
            "Arms that are asleep, and arms that are busy: these have as many open assignments as "
            "they may have. Pools with plain requests have neither.",
            "none",
            (
                Query(f"sum by (pool) (fair_allocator_arms_asleep{POOL})", "{{pool}} asleep"),
                Query(f"sum by (pool) (fair_allocator_arms_busy{POOL})", "{{pool}} busy"),
            ),
        ),
        Panel(
            "Longest gap",
            "Most slots that an arm with a quota could have had in a row without a pull, since the "
            "epoch in force began; dashed what a bank allows the smallest quota.",
            "none",
            (
                Query(f"max by (pool) (fair_allocator_longest_gap_slots{POOL})", "{{pool}}"),
                Query(
                    f"max by (pool) (fair_allocator_longest_gap_bound_slots{POOL})",
                    "{{pool}} allowed",
                    limit=True,
                ),
            ),
        ),
        Panel(
            "Learner faults",
            "Times within 15 minutes that a learner failed or chose what it must not, by pool. The "
            "least pulled arm is taken instead; no guarantee is touched.",
            "none",
            (
                Query(
                    f"sum by (pool) (increase(fair_allocator_learner_faults_total{POOL}[15m]))",
                    "{{pool}}",
                ),
            ),
        ),
    ),
)
