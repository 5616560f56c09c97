"""Crowd work on the client: three answers to every task, from workers with skills and shifts.

The service runs with crowd.toml. Usage: crowd.py URL TOKEN, with the rights ask and control.
"""

import sys
from collections import Counter
from random import Random

from fair_allocator.client import Allocator, Watch

POOL, SHIFT = "crowd", 10  # tasks until the shift changes
WORKERS = "ABCDEFGHIJKL"
SHIFTS = [WORKERS[:8], WORKERS[4:]]  # early and late; four workers are in both


class Crowd:
    """Hands tasks to workers, and their answers to the allocator."""

    def __init__(self, allocator: Allocator, seed: int = 7) -> None:
        self.allocator, self.random = allocator, Random(seed)
        self.did, self.declined = Counter[str](), Counter[str]()

    def change_shift(self, shift: str) -> None:
        """Wake the workers of this shift, and let the others sleep; they keep their claims."""
        self.allocator.control(POOL, "wake", arms=list(shift))
        self.allocator.control(POOL, "sleep", arms=[w for w in WORKERS if w not in shift])

    def do_task(self, feed: Watch) -> None:
        """Ask for three workers; if one declines, the feed names the replacement."""
        kind = self.random.choice(["text", "photo"])
        task = self.allocator.assign(POOL, needs=kind, slots=3)
        left, may_decline = len(task.arms), True
        while left:
            for pick in next(feed).arms:
                if may_decline and self.random.random() < 0.1:
                    self.allocator.decline(POOL, task.request_id, arm=pick.arm)
                    self.declined[pick.arm] += 1
                    may_decline = False
                else:
                    right = float(self.random.random() < 0.7)
                    self.allocator.reward(POOL, task.request_id, right, arm=pick.arm)
                    self.did[pick.arm] += 1
                    left -= 1


def main(allocator: Allocator, tasks: int = 60) -> Crowd:
    """Do all tasks; return who did what."""
    crowd = Crowd(allocator)
    with allocator.watch(POOL) as feed:
        for number in range(tasks):
            if number % SHIFT == 0:
                crowd.change_shift(SHIFTS[number // SHIFT % 2])
            crowd.do_task(feed)
    return crowd


if __name__ == "__main__":
    with Allocator(*sys.argv[1:]) as client:
        print(main(client).did)
