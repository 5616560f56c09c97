"""The head of an answer goes out with its body, and nothing is held back for long."""

import asyncio
from typing import Any

from fair_allocator.web.joining import Joining


class Wire:
    """A transport that notes what happens to it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def write(self, data: bytes) -> None:
        self.seen.append(data)

    def close(self) -> None:
        self.seen.append("close")

    def write_eof(self) -> None:
        self.seen.append("eof")

    def abort(self) -> None:
        self.seen.append("abort")

    def is_closing(self) -> bool:
        return False


def joined(*steps: str | bytes | None) -> list[Any]:
    """Write bytes, call methods by name, and let the loop turn once at None."""

    async def run() -> list[Any]:
        wire = Wire()
        joining = Joining(wire, asyncio.get_running_loop())  # type: ignore[arg-type]
        for step in steps:
            if step is None:
                await asyncio.sleep(0)
            elif isinstance(step, bytes):
                joining.write(step)
            else:
                getattr(joining, step)()
        return wire.seen

    return asyncio.run(run())


def test_a_head_goes_with_the_first_of_its_body() -> None:
    assert joined(b"head ", b"body") == [b"head body"]
    assert joined(b"head ", b"body", b"more", b"") == [b"head body", b"more", b""]
    assert joined(b"a ", b"b", "answer_ended", b"c ", b"d") == [b"a b", b"c d"]


def test_a_large_body_is_not_copied() -> None:
    large = b"x" * 100_000
    assert joined(b"head", large) == [b"head", large]


def test_a_head_alone_goes_out_with_the_next_turn_and_before_the_end() -> None:
    assert joined(b"head", None, b"body") == [b"head", b"body"]
    for end in ("close", "write_eof"):
        assert joined(b"head", end, None) == [b"head", end.removeprefix("write_")]
    assert joined(b"head", "abort", None) == ["abort"]
    assert joined("is_closing") == []
