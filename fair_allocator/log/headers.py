"""Headers as bytes, for a log that stores them beside its records."""

import struct
from typing import Final

from fair_allocator.log.records import Headers

_SIZES: Final = struct.Struct(">HH")


def pack(headers: Headers) -> bytes:
    """Return headers as bytes. The headers must be within the limits of `log.limits`."""
    packed = bytearray()
    for text, value in headers:
        name = text.encode()
        packed += _SIZES.pack(len(name), len(value)) + name + value
    return bytes(packed)


def unpack(data: bytes) -> Headers:
    """Return the headers from the bytes that `pack` returned; raise ValueError for other bytes.

    >>> unpack(pack((("a", b"bc"), ("a", b""))))
    (('a', b'bc'), ('a', b''))
    """
    headers: list[tuple[str, bytes]] = []
    at = 0
    while at < len(data):
        if at + _SIZES.size > len(data):
            raise ValueError("headers are cut off")
        name, value = _SIZES.unpack_from(data, at)
        begin = at + _SIZES.size
        at = begin + name + value
        if at > len(data):
            raise ValueError("headers are cut off")
        headers.append((data[begin : begin + name].decode(), data[begin + name : at]))
    return tuple(headers)
