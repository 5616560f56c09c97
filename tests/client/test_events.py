"""Server-sent events are read as the standard says, wherever the bytes are cut."""

import pytest

from fair_allocator.client.events import LONGEST_EVENT, Event, EventReader, TooLong

STREAM = (
    b"\xef\xbb\xbf: a comment\n\n"
    b"id: 0:1\ndata: one\n\n"
    b"data:two\r\ndata: lines\r\n\r\n"
    b"event: other\rid: 0:2\rdata: \xe2\x80\xa8\x0b\x1c\x85 odd\r\r"
    b"id: 0:3\n\n"
    b"retry: 10\nunknown: field\ndata\n\n"
    b"id: with\0null\ndata: kept\n\n"
    b"data: never ended"
)
EVENTS = [
    Event("0:1", "one"),
    Event("0:1", "two\nlines"),
    Event("0:2", "\u2028\x0b\x1c\ufffd odd"),
    Event("0:3", None),
    Event("0:3", ""),
    Event("0:3", "kept"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 1_000])
def test_events_are_found_wherever_the_bytes_are_cut(size: int) -> None:
    reader = EventReader()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS


def test_the_position_outlives_a_connection() -> None:
    assert [*EventReader("0:9").feed(b"data: x\n\n")] == [Event("0:9", "x")]


@pytest.mark.parametrize("piece", [b"data: %b\n", b"%b"], ids=["event", "line"])
def test_what_has_no_end_does_not_fill_the_memory(piece: bytes) -> None:
    reader = EventReader()
    data = piece % (b"x" * 2**20)
    for _ in range(LONGEST_EVENT // len(data)):
        assert [*reader.feed(data)] == []
    with pytest.raises(TooLong):
        [*reader.feed(data + data)]
