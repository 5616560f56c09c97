"""Break one of three brokers at our default timeouts, and say how long nobody decided.

    python -m tests.cluster --client kafka-python --fault group_coordinator_killed --seconds 40

Inputs come at 100 a second until the fault is over. Every play ends with the verifier of the chaos
tests: what is lost, doubled or unfair fails it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.timing import table
from tests.chaos.__main__ import CLIENTS
from tests.chaos.site import PARTITIONS, site
from tests.cluster.faults import FAULTS
from tests.cluster.watching import Watch
from tests.support.broker.cluster import COPIES, JavaCluster, private_cluster

PER_SECOND: Final = 100.0
BEFORE_SECONDS: Final = 3.0
UNBOUNDED: Final = 10**9

DEFAULTS: Final[dict[str, Any]] = {
    "session_seconds": 10.0,
    "transaction_seconds": 15.0,
    "request_seconds": 20.0,
    "rebalance_seconds": 120.0,
}


def play(
    cluster: JavaCluster, folder: Path, client: str, fault: str, seconds: float, seed: int
) -> list[object]:
    """Play a fault once; return a row of the table."""
    cluster.await_whole()
    with site(folder, cluster.bootstrap, client, seed, COPIES, **DEFAULTS) as played:
        played.stuck_seconds = 60.0
        one = played.instance("one").serving(PARTITIONS)
        with Watch(played.settings, PARTITIONS) as watch:
            load = played.load(UNBOUNDED, PER_SECOND)
            time.sleep(BEFORE_SECONDS)
            began = time.monotonic()
            FAULTS[fault](cluster, played, seconds)
            time.sleep(BEFORE_SECONDS)
            load.stop()
            verdict = "0"
            try:
                played.settle()  # so that a silence at the end counts, too
                time.sleep(1.0)
            except Exception as error:
                verdict = f"FAILED: {str(error)[:500]}"
            silence = watch.silence(began)
        try:
            played.check()
        except Exception as error:
            verdict = f"FAILED: {str(error)[:500]}"
        Path(tempfile.gettempdir(), f"last-words-{client}-{fault}.log").write_text(one.said())
        row = [fault.replace("_", " "), f"{seconds:g} s", client, f"{load.sent:,}", verdict]
        return [*row, f"{silence:.1f} s", played.restarts]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long a fault lasts")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    heads = ["fault", "lasting", "client", "inputs", "lost or doubled", "worst silence", "exits"]
    rows: list[list[object]] = [list(heads)]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_cluster(Path(folder, "cluster")) as cluster,
    ):
        for time_ in range(arguments.times):
            for fault in arguments.fault or FAULTS:
                for client in arguments.client or CLIENTS:
                    place = Path(folder, f"{fault}-{client}-{time_}")
                    seed = arguments.seed + time_
                    row = play(cluster, place, CLIENTS[client], fault, arguments.seconds, seed)
                    rows.append(row)
                    print(*row, sep=", ", flush=True)
    print("\n" + table(rows))
    return int(any(row[4] != "0" for row in rows[1:]))


if __name__ == "__main__":
    sys.exit(main())
