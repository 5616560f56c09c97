"""Every metric this service exports: name, kind, labels and meaning, in one table.

A pool's metrics are read from its state, which a restart restores from the journal. So they are
correct even after a crash: a recount of the assignments and rewards topics gives the same numbers.
The metrics of the loop are counted by this process since it started, as Prometheus expects of
counters.

If `log.partitioner` is "none", several partitions may have pools of the same name. Then all series
of pools and arms also have the label `partition`. Before the loop's first view, there are only the
`PROCESS_METRICS`: nothing else is known yet, and 0 would be wrong.
"""

from typing import Final, Literal, NamedTuple

PREFIX: Final = "fair_allocator_"

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """One metric family. The name of a counter ends in _total."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def full_name(self) -> str:
        """The exported name, with the prefix."""
        return PREFIX + self.name


_POOL: Final = ("pool",)
_ARM: Final = ("pool", "arm")
_PLACE: Final = ("topic", "partition")

ARM_METRICS: Final = (
    Metric(
        "fairness_violation",
        "gauge",
        _ARM,
        "Pulls the arm is short of its entitlement: floor(entitled) - pulls; below 0 it is ahead.",
    ),
    Metric("quota_ratio", "gauge", _ARM, "Share of the rounds the arm is promised, in force now."),
    Metric("share_ratio", "gauge", _ARM, "Share the arm has had of the rounds since it joined."),
    Metric(
        "assignments_total",
        "counter",
        (*_ARM, "reason"),
        "Assignments given to the arm, by reason: fairness (it had to be served) or learner.",
    ),
    Metric("rewards_total", "counter", _ARM, "Rewards counted for the arm."),
    Metric("reward_sum_total", "counter", _ARM, "Sum of the rewards counted for the arm."),
    Metric(
        "mean_reward_estimate",
        "gauge",
        _ARM,
        "Mean of the rewards counted for the arm; missing while there is none.",
    ),
)
"""Metrics of an arm. Only the selected arms of a pool have them, see `arms_hidden`."""

POOL_METRICS: Final = (
    Metric(
        "fairness_violation_max",
        "gauge",
        _POOL,
        "Worst violation over all arms of the pool now, in pulls.",
    ),
    Metric(
        "fairness_violation_peak",
        "gauge",
        _POOL,
        "Worst violation since the epoch in force began, at least 0; exact between scrapes.",
    ),
    Metric(
        "violated_epochs_total",
        "counter",
        _POOL,
        "Epochs in which an arm was short by more than promised when it was pulled.",
    ),
    Metric(
        "fairness_tolerance",
        "gauge",
        _POOL,
        "Pulls by which an arm may be short: the bound in force; missing if nothing is promised.",
    ),
    Metric(
        "arms_in_violation", "gauge", _POOL, "Arms that are short by more than the pool promises."
    ),
    Metric(
        "guarantee_info", "gauge", ("pool", "rule"), "Always 1: the rule the pool is served by."
    ),
    Metric(
        "pool_assignments_total",
        "counter",
        ("pool", "reason"),
        "Assignments of the pool, also to arms that have left, by reason: fairness or learner.",
    ),
    Metric("pool_rewards_total", "counter", _POOL, "Rewards counted, also of arms that have left."),
    Metric(
        "pool_reward_sum_total",
        "counter",
        _POOL,
        "Sum of the rewards counted, including arms that have left.",
    ),
    Metric(
        "regret_estimate",
        "gauge",
        _POOL,
        "Reward lost compared with the best arm alone, at the observed means.",
    ),
    Metric(
        "r_regret_estimate",
        "gauge",
        _POOL,
        "Reward the learner lost beyond the price of the quotas, at the observed means.",
    ),
    Metric(
        "r_regret_bound",
        "gauge",
        _POOL,
        "Fair-UCB's bound on the expected r-regret at the observed means.",
    ),
    Metric("pending_rewards", "gauge", _POOL, "Assignments that wait for their reward."),
    Metric("waiting_requests", "gauge", _POOL, "Requests that nobody can take now."),
    Metric(
        "longest_gap_slots",
        "gauge",
        _POOL,
        "Most slots an arm with a quota could have had in a row without a pull, in this epoch.",
    ),
    Metric(
        "longest_gap_bound_slots",
        "gauge",
        _POOL,
        "Longest gap the bank allows for the smallest quota; missing without a bank.",
    ),
    Metric(
        "learner_faults_total",
        "counter",
        _POOL,
        "Times the learner failed or chose a wrong arm, since the pool was restored.",
    ),
    Metric("arms", "gauge", _POOL, "Arms of the pool."),
    Metric(
        "arms_asleep",
        "gauge",
        _POOL,
        'Arms that are asleep; missing where requests = "plain".',
    ),
    Metric(
        "arms_busy",
        "gauge",
        _POOL,
        'Arms with as many open assignments as they may have; missing where requests = "plain".',
    ),
    Metric(
        "arms_hidden",
        "gauge",
        _POOL,
        "Arms without series of their own (metrics.max_arms_per_pool, metrics.max_arms).",
    ),
    Metric(
        "oldest_waiting_timestamp_seconds",
        "gauge",
        _POOL,
        "When the pool's oldest waiting request began to wait; missing if none waits.",
    ),
)
"""Metrics of a pool over all its arms. Only the selected pools have them, see `pools_hidden`."""

TRUE_METRICS: Final = (
    Metric("mean_reward_true", "gauge", _ARM, "The arm's true mean reward; only in a demo."),
    Metric("regret_true", "gauge", _POOL, "Regret at the true means; only in a demo."),
    Metric("r_regret_true", "gauge", _POOL, "R-regret at the true means; only in a demo."),
)
"""Metrics that need the true means; only a demo knows these."""

STREAM_METRICS: Final = (
    Metric(
        "pools",
        "gauge",
        ("state",),
        "Pools owned by this process: serving, paused, retired, stored or damaged.",
    ),
    Metric("pools_in_violation", "gauge", (), "Pools with an arm short by more than is promised."),
    Metric("pools_hidden", "gauge", (), "Pools without series of their own (metrics.max_pools)."),
    Metric(
        "consumer_lag_records",
        "gauge",
        _PLACE,
        "Records of an input that are not folded yet, as of the last tick.",
    ),
    Metric(
        "consumer_lag_seconds",
        "gauge",
        _PLACE,
        "Age of the last folded record while there are more to read; 0 if all is read.",
    ),
    Metric(
        "decisions_total",
        "counter",
        ("reason",),
        "Assignments decided by this process in all pools, by reason: fairness or learner.",
    ),
    Metric(
        "decision_latency_seconds",
        "histogram",
        (),
        "From a request's timestamp to the commit that answered or refused it, for every request.",
    ),
    Metric("transaction_duration_seconds", "histogram", (), "Duration of a commit that happened."),
    Metric("transactions_total", "counter", ("outcome",), "Commits: committed or aborted."),
    Metric(
        "log_failures_total",
        "counter",
        (),
        "Steps that failed before a commit: the log did not answer a poll or a restore.",
    ),
    Metric("rebalances_total", "counter", ("kind",), "Ownership changes: gained, revoked or lost."),
    Metric("assigned_partitions", "gauge", (), "Partitions owned by this process."),
    Metric("dead_letters_total", "counter", ("reason",), "Inputs that could not be used."),
    Metric(
        "duplicates_total",
        "counter",
        ("kind",),
        "Repeats: of a request, answered as before; of a reward, not counted again.",
    ),
    Metric(
        "waited_requests_total",
        "counter",
        (),
        "Times a request began to wait because nobody could take it.",
    ),
    Metric("declined_assignments_total", "counter", (), "Assignments that an arm declined."),
    Metric(
        "rewards_ignored_total",
        "counter",
        ("reason",),
        "Rewards not counted: repeated, late, arm-left or unknown.",
    ),
    Metric(
        "expired_requests_total",
        "counter",
        ("reason",),
        "Requests whose reward no longer counts: timeout or too-many-open.",
    ),
    Metric(
        "snapshot_timestamp_seconds",
        "gauge",
        ("partition",),
        "When the shard's last snapshot was closed; missing while it has none.",
    ),
    Metric("snapshot_bytes", "gauge", ("partition",), "Bytes of the shard's last snapshot."),
    Metric(
        "snapshot_due_ratio",
        "gauge",
        ("partition",),
        "Amount journaled since the last snapshot; at 1 the next snapshot is due.",
    ),
    Metric(
        "request_memory_bytes",
        "gauge",
        ("partition",),
        "Memory that requests take in the shard, estimated, with pools made on demand.",
    ),
    Metric(
        "request_memory_limit_bytes",
        "gauge",
        ("partition",),
        "Memory that they may take (limits.memory_bytes).",
    ),
    Metric("restore_duration_seconds", "histogram", (), "Duration of a shard's restore."),
    Metric(
        "journal_entries_total",
        "counter",
        ("partition",),
        "Journal entries of the shard since its log began, over all restarts.",
    ),
    Metric("view_timestamp_seconds", "gauge", (), "When the state shown here was taken."),
    Metric("view_age_seconds", "gauge", (), "How old the state shown here is."),
)
"""Metrics of the loop, as of its last view."""

PROCESS_METRICS: Final = (
    Metric("restoring", "gauge", (), "1 while the loop restores shards and has no time for views."),
    Metric("collector_errors_total", "counter", (), "Scrapes that failed in part."),
    Metric("build_info", "gauge", ("version",), "Always 1: the version that runs."),
)
"""Metrics of this process. They exist even before the first view."""

METRICS: Final = (
    *ARM_METRICS,
    *POOL_METRICS,
    *TRUE_METRICS,
    *STREAM_METRICS,
    *PROCESS_METRICS,
)


def named(name: str) -> Metric:
    """Return a metric by its name without the prefix."""
    return _BY_NAME[name]


_BY_NAME: Final = {metric.name: metric for metric in METRICS}
