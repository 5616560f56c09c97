"""The rival: another allocator, without guarantees, with the same requests and delays."""

from collections import deque
from math import inf
from typing import Final

from fair_allocator.core.errors import NobodyFree
from fair_allocator.core.pool import Pool
from fair_allocator.demo.board import Board
from fair_allocator.demo.grading import Grading
from fair_allocator.demo.world import World

_LEARNERS: Final[dict[str, dict[str, object]]] = {
    "plain UCB1": {"name": "ucb1"},
    "LFG": {"name": "lfg", "eta": 100},
}


class Rival:
    """Plain UCB1, which ignores quotas, or LFG, which serves them with queues."""

    def __init__(self, world: World, seed: int) -> None:
        self.board = Board(world)
        self._world = world
        self._grading = Grading(world, self.board.reward)
        self._pool = Pool(
            world.quotas(0),
            learner=_LEARNERS[world.rival],
            rule="none",
            seed=seed,
            name=world.pool,
            requests="any" if world.real else "plain",
            max_open=world.max_open,
        )
        self._sent = 0
        self._waiting: deque[tuple[int, int]] = deque()
        self._given: dict[int, set[str]] = {}
        self._join()

    def _join(self) -> None:
        for arm in self._pool.arms:
            self.board.join(arm)

    def step(self, count: int) -> None:
        """Receive the rewards and declines that are due, then decide the next requests."""
        first = self._sent
        self._take(first)
        if first >= self._world.joining and self._pool.size < len(self._world.arms):
            self._pool.reconfigure(self._world.quotas(first))
            self._join()
        self._change_shift(first)
        again, self._waiting = self._waiting, deque()
        for number, slots in again:
            self._decide(number, slots)
        for number in range(first, first + count):
            self._decide(number, self._world.slots)
        self._sent += count

    def settle(self) -> None:
        """Receive all rewards that have not arrived yet."""
        self._take(inf, declines=False)

    def _change_shift(self, number: int) -> None:
        asleep = self._world.asleep(number)
        for arm in self._pool.arms if self._world.real else ():
            (self._pool.sleep if arm in asleep else self._pool.wake)(arm)

    def _decide(self, number: int, slots: int) -> None:
        pool, world = self._pool, self._world
        if not world.real:
            arm = pool.assign(str(number)).arm
            self.board.serve(pool.arms, [(arm, False)])
            self._grading.assigned(number, arm)
            return
        given = self._given.setdefault(number, set())
        able = [arm for arm in world.able(number, pool.arms) if arm not in given]
        here = [arm for arm in able if pool.columns.index[arm] not in pool.away]
        if not able:
            return  # all arms that can take the request have declined it or were picked
        try:
            picks = pool.assign(f"{number}/{len(given)}", eligible=able, slots=slots).arms
        except NobodyFree:
            self._waiting.append((number, slots))
            return
        self.board.serve(here, [(arm, False) for arm in picks])
        for arm in picks:
            self._grading.assigned(number, arm, f"{number}/{len(given)}")
        given.update(picks)

    def _take(self, now: float, *, declines: bool = True) -> None:
        for due in self._grading.due(now):
            request = due.request or str(due.number)
            if due.value is not None:
                self._pool.reward(request, due.value, due.arm)
            elif declines:
                self._pool.decline(request, due.arm)
                self._decide(due.number, 1)
