"""The awaited allocator as one that blocks, so that both are held to the same tests."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

from fair_allocator.client import Allocator, Assignment, AsyncAllocator, AsyncWatch


class BlockingWatch(Iterator[Assignment]):
    def __init__(self, runner: asyncio.Runner, watch: AsyncWatch) -> None:
        self._runner = runner
        self._watch = watch

    @property
    def last_id(self) -> str | None:
        return self._watch.last_id

    def __enter__(self) -> "BlockingWatch":
        self._runner.run(self._watch.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Assignment:
        async def step() -> Assignment | None:
            return await anext(self._watch, None)

        found = self._runner.run(step())
        if found is None:
            raise StopIteration
        return found

    def close(self) -> None:
        self._runner.run(self._watch.aclose())


class Blocking:
    """Calls an `AsyncAllocator` on a loop of its own."""

    def __init__(self, make: Callable[[], AsyncAllocator]) -> None:
        self._runner = asyncio.Runner()
        self._of = make()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._runner.run(method(*arguments, **named))

        return call

    def watch(self, pool: str | None = None, *, after: str | None = None) -> BlockingWatch:
        return BlockingWatch(self._runner, self._of.watch(pool, after=after))

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._of.aclose())
        self._runner.close()


def blocking(make: Callable[[], AsyncAllocator]) -> Allocator:
    """Return an allocator that blocks, whose calls are those of an awaited one."""
    return cast(Allocator, Blocking(make))
