"""Break one of three brokers at our default timeouts, and say how long nobody decided.

    python -m tests.cluster --times 3
    python -m tests.cluster --client confluent --delivery at_least_once --fault rolling_kill

Each fault is played so many times with each client and each mode of delivery. Inputs come at 100 a
second, times the density, until the fault is over. Every play ends with the verifier of the chaos
tests: what is lost, doubled or unfair fails it. The sums are a table for docs/reliability.md.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from fair_allocator.log.kafka import DELIVERIES, KafkaSettings
from tests.chaos.__main__ import CLIENTS
from tests.chaos.site import PARTITIONS, Site, site
from tests.cluster.faults import FAULTS, OF_NETWORK, OF_TRANSACTIONS
from tests.cluster.watching import Watch
from tests.support.broker.cluster import COPIES, JavaCluster, private_cluster

PER_SECOND: Final = 100.0
BEFORE_SECONDS: Final = 3.0
UNBOUNDED: Final = 10**9

DEFAULTS: Final[dict[str, Any]] = {
    name: getattr(KafkaSettings("nowhere:1"), name)
    for name in (
        "session_seconds",
        "transaction_seconds",
        "request_seconds",
        "rebalance_seconds",
    )
}
"""What a user gets; the other tests are quicker."""


class Case(NamedTuple):
    """A fault, as one client in one mode of delivery meets it; the client has its usual name."""

    fault: str
    client: str
    delivery: str


@dataclass
class Tally:
    """What was seen of one case."""

    inputs: int = 0
    requests: int = 0
    silences: list[tuple[float, float]] = field(default_factory=list)
    exits: int = 0
    failures: list[str] = field(default_factory=list)

    def row(self, case: Case) -> list[object]:
        """Return a row of the table."""
        name, client, delivery = (text.replace("_", " ") for text in case)
        seen = ", ".join(f"{silence:.1f} ({of_it:.1f})" for silence, of_it in sorted(self.silences))
        sums = [
            len(self.silences),
            f"{self.inputs:,}",
            f"{self.requests:,}",
            len(self.failures),
            seen,
            self.exits,
        ]
        return [name, client, delivery, *sums]


HEADS: Final = (
    *("fault", "client", "delivery", "plays", "inputs", "requests", "lost, doubled or unfair"),
    *("worst silence, s (no leader)", "exits"),
)


def play(
    cluster: JavaCluster,
    folder: Path,
    case: Case,
    seconds: float,
    seed: int,
    density: int,
    tally: Tally,
) -> None:
    """Play a case once, and note what was seen."""
    cluster.await_whole()
    client = CLIENTS[case.client]
    chosen = {**DEFAULTS, "delivery": case.delivery}
    with site(folder, cluster.bootstrap, client, seed, COPIES, **chosen) as played:
        played.stuck_seconds, played.density = 60.0, density
        if case.fault in OF_NETWORK:
            played.address = cluster.linked
        one = played.instance("one").serving(PARTITIONS)
        try:
            tally.silences.append(_broken(cluster, played, case.fault, seconds))
            played.check()
        except Exception as error:
            tally.failures.append(f"{' '.join(case)} --seed {seed}: {str(error)[:2_000]}")
        tally.inputs += sum(load.sent for load in played.loads)
        tally.requests += sum(load.requests for load in played.loads)
        tally.exits += played.restarts
        words = f"last-words-{case.client}-{case.fault}-{case.delivery}.log"
        Path(tempfile.gettempdir(), words).write_text(one.said())


def _broken(cluster: JavaCluster, played: Site, fault: str, seconds: float) -> tuple[float, float]:
    """Break something under load; return the worst silence, and how long there was no leader."""
    with Watch(played.settings, PARTITIONS) as watch:
        load = played.load(UNBOUNDED, PER_SECOND)
        time.sleep(BEFORE_SECONDS)
        began = time.monotonic()
        leaderless = FAULTS[fault](cluster, played, seconds)
        time.sleep(BEFORE_SECONDS)
        load.stop()
        played.settle()  # so that a silence at the end counts, too
        time.sleep(1.0)
        return watch.silence(began), leaderless


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Yield what is to be played, in the order of the table."""
    chosen = (arguments.fault or FAULTS, arguments.client or CLIENTS)
    for fault, client, delivery in product(*chosen, arguments.delivery or DELIVERIES):
        if delivery == DELIVERIES[0] or fault not in OF_TRANSACTIONS:
            yield Case(fault, client, delivery)


def markdown(tallies: dict[Case, Tally]) -> str:
    """Return the sums as a table in Markdown."""
    rows = [HEADS, ["---"] * len(HEADS), *(tally.row(case) for case, tally in tallies.items())]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--delivery", choices=DELIVERIES, action="append")
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a fault lasts")
    parser.add_argument("--times", type=int, default=1, help="how often each case is played")
    parser.add_argument("--density", type=int, default=1, help="inputs for one at 100 a second")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    tallies = {case: Tally() for case in cases(arguments)}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_cluster(Path(folder, "cluster")) as cluster,
    ):
        for turn, (case, tally) in product(range(arguments.times), tallies.items()):
            seed = arguments.seed + turn
            play(
                cluster,
                Path(folder, f"{'-'.join(case)}-{turn}"),
                case,
                arguments.seconds,
                seed,
                arguments.density,
                tally,
            )
            print(time.strftime("%H:%M:%S"), *tally.row(case), sep=", ", flush=True)
    print("\n" + markdown({case: tally for case, tally in tallies.items() if tally.inputs}))
    failures = [text for tally in tallies.values() for text in tally.failures]
    print(*failures, sep="\n\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
