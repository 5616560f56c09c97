"""The long form: breaks services and broker for as long as wanted, and says what was seen.

    python -m tests.chaos --minutes 15 --client kafka-python
    python -m tests.chaos --client confluent --case zombie_comes_back --seed 7

Each turn plays every case with a seed of its own, which is printed, so that a failure can be
played again. It ends with a table, and with 1 if an invariant was broken.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from benchmarks.timing import table
from fair_allocator.log.kafka import DELIVERIES
from tests.chaos.cases import CASES, OF_TRANSACTIONS
from tests.chaos.site import Site, site
from tests.support.broker.choice import private_broker
from tests.support.broker.java import JavaBroker

CLIENTS = {"kafka-python": "kafka", "confluent": "confluent"}


@dataclass
class Tally:
    """What was seen of one case."""

    plays: int = 0
    failures: list[str] = field(default_factory=list)
    inputs: int = 0
    requests: int = 0
    outputs: int = 0
    restarts: int = 0
    breaks: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    def cells(self) -> list[object]:
        """Return what a row of the table says."""
        broken = ", ".join(f"{count} {what}" for what, count in sorted(self.breaks.items()))
        sums = self.inputs, self.requests, self.outputs
        return [
            self.plays,
            broken or "-",
            *(f"{number:,}" for number in sums),
            self.restarts,
            len(self.failures),
        ]


def play(
    broker: JavaBroker,
    folder: Path,
    client: str,
    delivery: str,
    name: str,
    seed: int,
    intensity: int,
    density: int,
    tally: Tally,
) -> None:
    """Play a case with topics of its own, and note what was seen."""
    tally.plays += 1
    with site(folder, broker.bootstrap, client, seed, delivery=delivery) as played:
        played.broker, played.intensity, played.density = broker, intensity, density
        try:
            CASES[name](played)
            tally.outputs += played.check()
        except Exception as error:
            said = played.last_words()
            tally.failures.append(f"{name} --seed {seed}: {str(error)[:2_000]}\n{said}")
        _note(played, tally)


def _note(played: Site, tally: Tally) -> None:
    tally.inputs += sum(load.sent for load in played.loads)
    tally.requests += sum(load.requests for load in played.loads)
    tally.restarts += played.restarts
    tally.breaks += played.breaks


def report(tallies: dict[str, Tally]) -> str:
    """Return the table of all cases that were played, with their sum."""
    played = {name: tally for name, tally in tallies.items() if tally.plays}
    return table(
        [
            ["case", "played", "broken", "inputs", "requests", "records out", "restarts", "failed"],
            *([name.replace("_", " "), *tally.cells()] for name, tally in played.items()),
            ["all", *sum(played.values(), Tally()).cells()],
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=15.0, help="after which no case begins")
    parser.add_argument("--client", choices=CLIENTS, default="kafka-python")
    parser.add_argument("--delivery", choices=DELIVERIES, default=DELIVERIES[0])
    parser.add_argument("--case", choices=CASES, action="append", help="only this one; repeatable")
    parser.add_argument("--seed", type=int, help="of the first turn; by default the time")
    parser.add_argument("--intensity", type=int, default=2, help="breaks for one of the short form")
    parser.add_argument("--density", type=int, default=1, help="inputs for one of the short form")
    arguments = parser.parse_args(argv)
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    names = arguments.case or [
        name for name in CASES if arguments.delivery == DELIVERIES[0] or name not in OF_TRANSACTIONS
    ]
    tallies = {name: Tally() for name in names}
    deadline = time.monotonic() + 60 * arguments.minutes
    turn = 0
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_broker(Path(folder, "broker")) as broker,
    ):
        while time.monotonic() < deadline:
            name = names[turn % len(names)]
            this_seed = seed + turn // len(names)
            print(f"{name} --seed {this_seed} ...", end=" ", flush=True)
            tally, began = tallies[name], time.monotonic()
            before = len(tally.failures)
            place = Path(folder, f"{turn}")
            client, delivery = CLIENTS[arguments.client], arguments.delivery
            how = arguments.intensity, arguments.density
            play(broker, place, client, delivery, name, this_seed, *how, tally)
            verdict = "held" if len(tally.failures) == before else f"FAILED: {tally.failures[-1]}"
            print(f"{verdict} ({time.monotonic() - began:.0f} s)", flush=True)
            turn += 1
    what = f"{arguments.client}, {arguments.delivery}"
    print(f"\n{what}, seeds from {seed}, {arguments.minutes:g} minutes\n")
    print(report(tallies))
    failures = [text for tally in tallies.values() for text in tally.failures]
    for text in failures:
        print(f"\n{text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
