"""Plain UCB1 beside it: no quotas, the same world, the same delays, in this process."""

from math import inf

from fair_allocator.core.pool import Pool
from fair_allocator.demo.board import Board
from fair_allocator.demo.grading import Grading
from fair_allocator.demo.world import World


class Plain:
    """A pool that learns as ours does and owes nobody anything."""

    def __init__(self, world: World, seed: int) -> None:
        self.board = Board(world)
        self._world = world
        self._grading = Grading(world, self.board.reward)
        self._pool = Pool(world.quotas(0), rule="none", seed=seed, name=world.pool)
        self._join()

    def _join(self) -> None:
        for arm in self._pool.arms:
            self.board.join(arm)

    def step(self, count: int) -> None:
        """Take in what is due, then decide the next requests."""
        pool, board, first = self._pool, self.board, self.board.rounds
        self._reward(first)
        if first >= self._world.joining and pool.size < len(self._world.arms):
            pool.reconfigure(self._world.quotas(first))
            self._join()
        for number in range(first, first + count):
            arm = pool.assign(str(number)).arm
            board.pull(arm, forced=False)
            self._grading.assigned(number, arm)

    def settle(self) -> None:
        """Take in every reward that is still on its way."""
        self._reward(inf)

    def _reward(self, now: float) -> None:
        for number, value in self._grading.due(now):
            self._pool.reward(str(number), value)
