"""What the dashboard shows of the stream and the state.

Every query gives at least one sample on a live service.
"""

from typing import Final

from deploy.grafana.panel import HERE, POOL, Kind, Panel, Query, Row

STREAM: Final = Row(
    "Stream",
    (
        Panel(
            "Lag in seconds",
            "How long ago what is read now was written, by topic, the worst partition; 0 if all "
            "is read.",
            "s",
            (
                Query(
                    "max by (topic) "
                    f"(topic_partition:fair_allocator_consumer_lag_seconds:max{HERE})",
                    "{{topic}}",
                ),
            ),
            red_from=30,
        ),
        Panel(
            "Lag in records",
            "Unread records of each topic over all partitions.",
            "none",
            (
                Query(
                    "sum by (topic) "
                    f"(topic_partition:fair_allocator_consumer_lag_records:max{HERE})",
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Decision latency",
            "From a request's timestamp to the commit of its assignment.",
            "s",
            (
                Query(f"job:fair_allocator_decision_latency_seconds:p50_1m{HERE}", "half within"),
                Query(f"job:fair_allocator_decision_latency_seconds:p99_1m{HERE}", "99 % within"),
            ),
        ),
        Panel(
            "Transactions",
            "Commits a second by outcome, and polls and restores that failed; after an aborted "
            "commit the shards are restored.",
            "ops",
            (
                Query(
                    f"sum by (outcome) (rate(fair_allocator_transactions_total{HERE}[1m]))",
                    "{{outcome}}",
                ),
                Query(f"sum(rate(fair_allocator_log_failures_total{HERE}[1m]))", "failed to read"),
            ),
        ),
        Panel(
            "Duration of a commit",
            "Half and 99 % of the transactions were done within this time.",
            "s",
            (
                Query(
                    "histogram_quantile(0.5, sum by (le) "
                    f"(rate(fair_allocator_transaction_duration_seconds_bucket{HERE}[1m])))",
                    "half within",
                ),
                Query(
                    "histogram_quantile(0.99, sum by (le) "
                    f"(rate(fair_allocator_transaction_duration_seconds_bucket{HERE}[1m])))",
                    "99 % within",
                ),
            ),
        ),
        Panel(
            "Dead letters and repeats",
            "By reason, in 5 minutes; repeats are answered again and not counted.",
            "none",
            (
                Query(
                    f"sum by (reason) (increase(fair_allocator_dead_letters_total{HERE}[5m]))",
                    "dead letter: {{reason}}",
                ),
                Query(
                    f"sum by (kind) (increase(fair_allocator_duplicates_total{HERE}[5m]))",
                    "repeated: {{kind}}",
                ),
            ),
        ),
        Panel(
            "Partitions by instance",
            "Who owns how many; the sum is the topics' partition count.",
            "none",
            (
                Query(
                    f"sum by (instance) (fair_allocator_assigned_partitions{HERE})", "{{instance}}"
                ),
            ),
            Kind.STACK,
            width=12,
        ),
        Panel(
            "Rebalances",
            "In 10 minutes, by kind: partitions gained, given up in order, or lost.",
            "none",
            (
                Query(
                    f"sum by (kind) (increase(fair_allocator_rebalances_total{HERE}[10m]))",
                    "{{kind}}",
                ),
            ),
            width=12,
        ),
    ),
)

STATE: Final = Row(
    "State",
    (
        Panel(
            "Journaled since the newest snapshot",
            "By partition, over what makes the next one due: at 1 it is begun. It is what a "
            "restart has to replay.",
            "none",
            (
                Query(
                    f"max by (partition) (fair_allocator_snapshot_due_ratio{HERE})",
                    "partition {{partition}}",
                ),
            ),
            red_from=3,
        ),
        Panel(
            "Size of the newest snapshot",
            "By partition.",
            "bytes",
            (
                Query(
                    f"max by (partition) (fair_allocator_snapshot_bytes{HERE})",
                    "partition {{partition}}",
                ),
            ),
        ),
        Panel(
            "Journal entries",
            "Written a second, by instance: one for each shard in each commit that changed it.",
            "ops",
            (
                Query(
                    f"sum by (instance) (rate(fair_allocator_journal_entries_total{HERE}[1m]))",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Duration of a restore",
            "By instance: how long it took on average to come back to a shard's state.",
            "s",
            (
                Query(
                    f"sum by (instance) (fair_allocator_restore_duration_seconds_sum{HERE}) / "
                    f"sum by (instance) (fair_allocator_restore_duration_seconds_count{HERE})",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Pools",
            "By state. Retired pools are compressed, stored ones not made yet after a start.",
            "none",
            (Query(f"sum by (state) (fair_allocator_pools{HERE})", "{{state}}"),),
            Kind.STACK,
        ),
        Panel(
            "Memory",
            "Resident, by instance.",
            "bytes",
            (
                Query(
                    "max by (instance) (process_resident_memory_bytes"
                    '{job="fair-allocator", namespace=~"$namespace"})',
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Age of what is shown",
            "How long ago the loop handed out the state that was scraped; it grows while the loop "
            "is stuck or restores.",
            "s",
            (
                Query(
                    f"time() - min by (instance) (fair_allocator_view_timestamp_seconds{HERE})",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Hidden, and failed",
            "Pools and arms without series of their own because of the limits in section metrics, "
            "and scrapes that could not read everything.",
            "none",
            (
                Query(f"sum(fair_allocator_pools_hidden{HERE})", "pools hidden"),
                Query(f"sum(fair_allocator_arms_hidden{POOL})", "arms hidden"),
                Query(f"sum(fair_allocator_collector_errors_total{HERE})", "failed scrapes"),
            ),
        ),
        Panel(
            "Versions",
            "Instances by version.",
            "none",
            (Query(f"count by (version) (fair_allocator_build_info{HERE})", "{{version}}"),),
            Kind.BARS,
        ),
    ),
)
