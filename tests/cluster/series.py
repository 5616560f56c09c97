"""Break one of three brokers again and again, under services of both clients at once.

    python -m tests.cluster.series --faults 20
    python -m tests.cluster.series --faults 5 --delivery at_least_once --per-second 100

One cluster serves both clients, each with topics and a group of its own, at our default timeouts
and under a steady load. Each fault hits a broker that looks after one of the two: the coordinator
of its group, the coordinator of its transactions, or the leader of a journal. The broker is killed
and comes back after a while; the next fault begins when every copy is in sync again. For every
fault this prints the longest time in which some partition was not served, by client. In the end the
verifier of the chaos tests checks both: what is lost, doubled or unfair fails it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice, product
from pathlib import Path
from statistics import median
from typing import Final

from fair_allocator.log.kafka import DELIVERIES
from fair_allocator.service import ServiceSettings
from tests.chaos.__main__ import CLIENTS
from tests.chaos.site import PARTITIONS, Site, site
from tests.cluster.__main__ import DEFAULTS, UNBOUNDED
from tests.cluster.faults import FAULTS, OF_TRANSACTIONS
from tests.cluster.watching import Watch
from tests.support.broker.cluster import COPIES, private_cluster

KILLS: Final = ("group_coordinator_killed", "transaction_coordinator_killed", "leader_killed")
CALM_SECONDS: Final = 5.0
"""How long all brokers run between two faults."""


class Played:
    """The service of one client, watched from its start on."""

    def __init__(self, stack: ExitStack, made: Site, per_second: float) -> None:
        self.site = made
        self.silences: list[float] = []
        made.stuck_seconds = 60.0
        made.batch_records = ServiceSettings().batch_records
        made.instance("one").serving(PARTITIONS)
        self._watch = stack.enter_context(Watch(made.settings, PARTITIONS))
        self._load = made.load(UNBOUNDED, per_second)

    def note_silence(self, began: float) -> float:
        """Note the longest silence since a fault began."""
        self.site.supervise()
        self.silences.append(self._watch.silence(began, time.monotonic()))
        return self.silences[-1]

    def verdict(self, words: Path) -> str:
        """End the load and check the topics; return what was seen, in a line.

        What the service said is kept in a file.
        """
        self._load.stop()
        words.write_text(self.site.instances["one"].said())
        published = self.site.check()
        longest = max(self.silences)
        return (
            f"{len(self.silences)} faults, {self._load.sent:,} inputs, {published:,} records out, "
            f"silence {median(self.silences):.1f} s (median), {longest:.1f} s (worst), "
            f"{self.site.restarts} exits; nothing lost, doubled or unfair"
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.series",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--delivery", choices=DELIVERIES, default=DELIVERIES[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a fault lasts")
    parser.add_argument("--per-second", type=float, default=100.0, help="inputs, for each client")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    once = arguments.delivery == DELIVERIES[0]
    names = [name for name in KILLS if once or name not in OF_TRANSACTIONS]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        cluster = stack.enter_context(private_cluster(folder / "cluster"))
        services: dict[str, Played] = {}
        for client in arguments.client or CLIENTS:
            chosen = site(
                folder / client,
                cluster.bootstrap,
                CLIENTS[client],
                arguments.seed,
                COPIES,
                **DEFAULTS,
                delivery=arguments.delivery,
            )
            services[client] = Played(stack, stack.enter_context(chosen), arguments.per_second)
        cluster.await_whole()
        aims = islice(cycle(product(names, services)), arguments.faults)
        for number, (name, client) in enumerate(aims, 1):
            time.sleep(CALM_SECONDS)
            began = time.monotonic()
            leaderless = FAULTS[name](cluster, services[client].site, arguments.seconds)
            cluster.await_whole()
            time.sleep(CALM_SECONDS)
            seen = ", ".join(
                f"{each} {made.note_silence(began):.1f} s" for each, made in services.items()
            )
            print(
                f"{number}: {name} of {client}: no leader for {leaderless:.1f} s; silence: {seen}",
                flush=True,
            )
        for client, made in services.items():
            words = Path(tempfile.gettempdir(), f"last-words-{client}.log")
            print(f"{client}, {arguments.delivery}: {made.verdict(words)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
