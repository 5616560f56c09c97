"""Search for a broken promise: ``python -m tests.selection --scenarios 1000000 --processes 2``."""

import argparse
import sys
import time

from tests.selection.adversary import Tally
from tests.selection.against_pool import play_pool
from tests.selection.search import count_control_failures, play_batches, play_oracle


def main(arguments: list[str] | None = None) -> int:
    """Play scenarios, report progress, and return 1 if a promise broke."""
    options = _parse(arguments)
    player = play_pool if options.pool else play_oracle
    began, total = time.monotonic(), Tally()
    for batch in play_batches(options.seed, options.scenarios, player, options.processes):
        total.add(batch.tally)
        for story in batch.failures:
            print(f"BROKEN\n  {story}", flush=True)
        rate = total.scenarios / (time.monotonic() - began)
        print(
            f"\rseeds {options.seed} to {batch.first + batch.size - 1}: "
            f"{total.requests:,} requests, {total.changes:,} changes, "
            f"{total.broken} broken, {rate:.0f} scenarios a second",
            end="",
            file=sys.stderr,
            flush=True,
        )
    print(file=sys.stderr)
    for name, value in vars(total).items():
        print(f"{name:>10} {value:>15,}")
    for name, (broken, first) in count_control_failures(options.seed, options.controls).items():
        print(f"control {name!r}: {broken} of {options.controls} broken, the first after {first}")
    return 1 if total.broken else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.selection",
        description="Play an adversary's scenarios and check (I) after every request. "
        "A scenario is its seed: go on from the last seed reported to resume a search.",
    )
    parser.add_argument("--scenarios", type=int, default=10_000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario (%(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="to share the work (%(default)s)")
    parser.add_argument(
        "--controls",
        type=int,
        default=1_000,
        help="scenarios to play with each wrong rule, which must break (%(default)s)",
    )
    parser.add_argument(
        "--pool", action="store_true", help="play a real Pool beside the oracle and compare"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
