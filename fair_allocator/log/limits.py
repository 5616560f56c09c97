"""Checks that every log makes, with the same messages, before it writes anything."""

from collections.abc import Iterable, Mapping

from fair_allocator.log.records import (
    HEADERS_BYTES,
    HINT_BYTES,
    INPUTS,
    RECORD_BYTES,
    Headers,
    Outgoing,
)


def require_size(key: bytes | None, value: bytes | None) -> None:
    """Refuse a record that is too large: it would make the transaction or some clients fail."""
    size = len(key or b"") + len(value or b"")
    if size > RECORD_BYTES:
        raise ValueError(f"key and value take {size:,} bytes; at most {RECORD_BYTES:,} are allowed")


def require_headers(headers: Headers) -> None:
    """Refuse headers that take too many bytes, or whose names are not valid text."""
    size = sum(len(name.encode()) + len(value) for name, value in headers)
    if size > HEADERS_BYTES:
        raise ValueError(f"the headers take {size:,} bytes; at most {HEADERS_BYTES:,} are allowed")


def require_committable(
    outgoing: Iterable[Outgoing], offsets: Iterable[tuple[str, int]], hints: Mapping[int, str]
) -> None:
    """Refuse a commit with a record that is too large, or with wrong positions or hints."""
    for _, _, key, value, headers in outgoing:
        require_size(key, value)
        if headers:
            require_headers(headers)
    require_positions(offsets, hints)


def require_positions(offsets: Iterable[tuple[str, int]], hints: Mapping[int, str]) -> None:
    """Refuse hints that are too long, and positions of topics that are not inputs."""
    for hint in hints.values():
        if len(hint.encode()) > HINT_BYTES:
            raise ValueError(f"a hint may take at most {HINT_BYTES} bytes: {hint[:40]!r}...")
    for topic, _ in offsets:
        if topic not in INPUTS:
            raise ValueError(f"{topic!r} is not an input, so it has no committed position")
