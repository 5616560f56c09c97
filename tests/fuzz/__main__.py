"""``python -m tests.fuzz --inputs 1000000 --seed 1``: as many damaged inputs as you like.

Events are played in parts, each on a log of its own that is checked at its end. So the memory stays
the same however many there are.
"""

import argparse
import logging
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.fuzz.controls import play_controls
from tests.fuzz.files import play_files
from tests.fuzz.http import play_http
from tests.fuzz.play import play
from tests.fuzz.states import play_journals, play_states

PART = 25_000
"""Events on one log."""


def _events(seed: int, inputs: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for number, done in enumerate(range(0, inputs, PART)):
        count = min(PART, inputs - done)
        outcomes += play(seed * 1_000_000 + number if number else seed, count).outcomes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"seed {seed}: {done + count:,} inputs; at most {peak:,} MB so far", flush=True)
    return outcomes


TARGETS: dict[str, Callable[[int, int], Counter[str]]] = {
    "events": _events,
    "controls": play_controls,
    "files": play_files,
    "states": play_states,
    "journals": play_journals,
    "http": play_http,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=TARGETS, default="events", help="what is damaged")
    parser.add_argument("--inputs", type=int, default=300_000, help="of each seed")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        began = time.monotonic()
        outcomes = TARGETS[arguments.target](seed, arguments.inputs)
        counts = ", ".join(f"{kind} {count:,}" for kind, count in outcomes.most_common())
        seconds = time.monotonic() - began
        print(f"seed {seed}: {arguments.inputs:,} inputs in {seconds:.0f} s; {counts}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
