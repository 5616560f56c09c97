"""Inputs to begin with, one in a line: each was odd enough to be kept.

A line has Python's escapes (``\\n``, ``\\xff``, ``\\\\``). Empty lines are skipped, and so are
lines that begin with #.
"""

from pathlib import Path
from random import Random

MOST_BYTES = 40_000
"""How long a mutated input may become."""


def corpus(target: str) -> list[bytes]:
    """Return the inputs of a target."""
    text = Path(__file__).with_name(f"{target}.txt").read_text("ascii")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.encode().decode("unicode_escape").encode("latin-1") for line in lines]


def mutated(value: bytes, others: list[bytes], rng: Random) -> bytes:
    """Return an input with one to four places changed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(value) + 1)
        end = min(len(value), at + rng.choice((1, 2, 5, 20)))
        match rng.randrange(7):
            case 0:
                value = value[:at] + value[end:]
            case 1:
                value = value[:at] + bytes([rng.randrange(256)]) + value[at:]
            case 2:
                value = value[:at] + bytes([rng.randrange(256)]) + value[at + 1 :]
            case 3:
                value = value[:at] + value[at:end] * rng.choice((2, 50, 3_000)) + value[end:]
            case 4:
                other = rng.choice(others)
                value = value[:at] + other[rng.randrange(len(other) + 1) :]
            case 5:
                value = value[:at] + rng.choice(SPECIAL) + value[at:]
            case _:
                value = value[:at] + rng.choice(SPECIAL) + value[end:]
    return value[:MOST_BYTES]


SPECIAL = [
    *(b"\x00", b"\r\n", b"\n", b'"', b"\\", b"{", b"}", b"[", b"[" * 3_000, b'{"a":' * 200),
    *(b"\\ud800", b"\\u0000", b"\xed\xa0\x80", b"\xff", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80"),
    *(b"1e9999999", b"9" * 5_000, b"-1", b"-0.0", b"1e-400", b"0x1", b"NaN", b"Infinity", b"null"),
    *(b"%00", b"%ED%A0%80", b"%2e%2e%2f", b"?", b"&", b"#", b"a" * 300, b" " * 1_000, b","),
]
"""What breaks readers: quotes, nesting, half characters, numbers, paths."""
