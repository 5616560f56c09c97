"""How much memory there is, and how much of it the requests of a partition may take."""

from pathlib import Path

import pytest

from fair_allocator.config import load
from fair_allocator.wiring import machine, settings


def test_the_smallest_limit_counts(tmp_path: Path) -> None:
    new, old = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    whole = machine.memory_bytes(())
    assert whole > 100_000_000
    new.write_text("max\n")
    assert machine.memory_bytes((new, old)) == whole
    new.write_text("1073741824\n")
    assert machine.memory_bytes((new, old)) == 2**30
    old.write_text("9223372036854771712\n")
    assert machine.memory_bytes((old,)) == whole


@pytest.mark.parametrize(
    ("text", "partitions", "bytes"),
    [
        ("", 4, 150_000_000),
        ("", 1_000, 10_000_000),
        ("[limits]\nmemory_bytes = 123456", 4, 123_456),
    ],
)
def test_partitions_share_what_there_is(
    text: str, partitions: int, bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "memory_bytes", lambda: 1_000_000_000)
    file = tmp_path / "fair-allocator.toml"
    file.write_text(text)
    assert settings.shard_settings(load(file, {}), partitions).memory_bytes == bytes
