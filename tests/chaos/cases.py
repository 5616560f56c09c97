"""Every case, by name."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos import broker_cases, service_cases, topic_cases
from tests.chaos.site import Site

Case = Callable[[Site], None]

SERVICE: Final[tuple[Case, ...]] = (
    service_cases.killed_at_random_moments,
    service_cases.stopped_under_load,
    service_cases.zombie_comes_back,
    service_cases.instances_come_and_go,
    service_cases.transaction_older_than_its_timeout,
    service_cases.same_transactional_id_twice,
    service_cases.same_instance_twice,
)
TOPIC: Final[tuple[Case, ...]] = (
    topic_cases.foreign_transaction_during_restore,
    topic_cases.rebalance_during_restore,
    topic_cases.oversize_in_and_out,
    topic_cases.dead_letters_cannot_be_written,
    topic_cases.dead_letters_deleted,
)
BROKER: Final[tuple[Case, ...]] = (broker_cases.broker_killed, broker_cases.broker_suspended)

CASES: Final[Mapping[str, Case]] = {case.__name__: case for case in (*SERVICE, *TOPIC, *BROKER)}
AT_LEAST_ONCE: Final = ("killed_at_random_moments", "zombie_comes_back", "broker_killed")
"""Those that the short form plays with at least one delivery, too."""

OF_TRANSACTIONS: Final = ("transaction_older_than_its_timeout", "same_transactional_id_twice")
"""Those that wait for a transaction to fail, which only "exactly_once" has."""
