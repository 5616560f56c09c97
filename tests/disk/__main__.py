"""Let every call of the embedded log on its files fail once, in every manner.

python -m tests.disk                    every call, which takes most of an hour
python -m tests.disk --part 3/16        the third of 16 equal parts of them
python -m tests.disk --every 10         every tenth call
python -m tests.disk --story serve --how killed --at 17
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.disk.laboratory import HOW, STORIES, check, laboratory


def _part(text: str) -> tuple[int, int]:
    """Read which part of how many is meant."""
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part), int(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Play stories on a disk that fails.")
    parser.add_argument("--every", type=int, default=1, help="let only every so many calls fail")
    parser.add_argument("--story", choices=STORIES, help="only this story")
    parser.add_argument("--how", choices=HOW, help="only this manner of failing")
    parser.add_argument("--at", type=int, help="only this call")
    parser.add_argument("--part", type=_part, default=(1, 1), help="only this part, such as 3/16")
    arguments = parser.parse_args()
    part, parts = arguments.part
    began, played, codes = time.monotonic(), 0, Counter[str]()
    with TemporaryDirectory() as folder, laboratory(Path(folder)) as place:
        for story in [arguments.story] if arguments.story else STORIES:
            calls = check(place, story, 0, "io-error").calls
            for how in [arguments.how] if arguments.how else HOW:
                numbers = range(part, calls + 1, parts * arguments.every)
                for at in numbers if arguments.at is None else [arguments.at]:
                    try:
                        codes[f"{story}, {how}: exit {check(place, story, at, how).code}"] += 1
                    except BaseException:
                        print(f"--story {story} --how {how} --at {at}", file=sys.stderr)
                        raise
                    played += 1
    print(f"{played} failing calls in {time.monotonic() - began:.0f} s")
    for name, count in sorted(codes.items()):
        print(f"{count:6d}  {name}")


if __name__ == "__main__":
    main()
