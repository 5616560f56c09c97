"""``python -m tests.fuzz --inputs 300000 --seed 1``: as many damaged inputs as you like."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.fuzz.play import play
from tests.fuzz.states import play_journals, play_states


def _events(seed: int, inputs: int) -> Counter[str]:
    return play(seed, inputs).outcomes


TARGETS: dict[str, Callable[[int, int], Counter[str]]] = {
    "events": _events,
    "states": play_states,
    "journals": play_journals,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=TARGETS, default="events", help="what is damaged")
    parser.add_argument("--inputs", type=int, default=300_000, help="of each seed")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        began = time.monotonic()
        outcomes = TARGETS[arguments.target](seed, arguments.inputs)
        counts = ", ".join(f"{kind} {count:,}" for kind, count in outcomes.most_common())
        seconds = time.monotonic() - began
        print(f"seed {seed}: {arguments.inputs:,} inputs in {seconds:.0f} s; {counts}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
