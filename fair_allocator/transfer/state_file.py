"""The state of every pool as NDJSON: what `export` writes and `import` reads.

The first line is the header. It has the name of the format, its version and the release that wrote
the file. For each partition it has the clock, and fingerprints of the pools in the configuration
file as they were last applied. Then comes one line for each pool. The last line has a checksum over
all bytes before it.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from io import BufferedIOBase
from typing import Any, ClassVar, Final

from fair_allocator import __version__
from fair_allocator.core.checking import MOST
from fair_allocator.core.expecting import list_in, mapping_in, text_in, whole_in
from fair_allocator.errors import ConfigurationError, FairAllocatorError, InvalidState
from fair_allocator.events.wire import to_json
from fair_allocator.shard import Shard
from fair_allocator.shard.table import signed_at_in
from fair_allocator.text import to_bytes, to_text

FORMAT: Final = "fair-allocator pools"
VERSION: Final = 1

_AHEAD_MS: Final = 3_600_000
"""By how many ms the clock of an exported partition may be ahead of this machine's clock.

If it were much further ahead, all timeouts would end at once.
"""


class DamagedExport(FairAllocatorError):
    """A file is not an export, is damaged or incomplete, or has a pool that is not valid."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """A partition that was exported.

    Attributes
    ----------
    clock
        The shard's time, in ms.
    applied
        The fingerprints (hashes) of the configuration file's pools as they were last applied, by
        pool.
    signed_at
        The times of the last signatures, by key. An older export has none.
    """

    partition: int
    clock: int
    applied: dict[str, str]
    signed_at: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool of an export: the partition that it was on, and its state."""

    partition: int
    name: str
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateFile:
    """The content of an export that was read to its end and is not damaged."""

    origins: dict[int, Origin]
    pools: list[PoolLine]
    checksum: str


# -- writing ------------------------------------------------------------------------------------


def write(shards: Iterable[Shard]) -> Iterator[bytes]:
    """Yield the lines of an export of these shards."""
    origins, lines = [], []
    for shard in shards:
        table = shard.table
        origin = Origin(shard.partition, table.clock, table.applied, table.signed_at)
        origins.append(asdict(origin))
        lines += [
            b'{"partition":%d,"pool":%s}\n' % (shard.partition, table.dump([name]))
            for name in sorted(table)
        ]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "release": __version__,
        "pools": len(lines),
        "partitions": origins,
    }
    lines.insert(0, _line(header))
    digest = blake2b(digest_size=16)
    for line in lines:
        digest.update(line)
        yield line
    yield _line({"checksum": digest.hexdigest()})


def _line(data: object) -> bytes:
    return to_bytes(to_json(data)) + b"\n"


def write_file(path: str, lines: Iterable[bytes]) -> int:
    """Write a complete file; return the number of lines.

    If it fails, raise OSError and write no file.
    """
    beside, count = f"{path}.{os.getpid()}.part", 0
    try:
        # Only the owner may read the file, because it has the state of every pool.
        private = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(private, "wb") as file:
            for line in lines:
                file.write(line)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise
    return count


# -- reading ------------------------------------------------------------------------------------


def read(file: BufferedIOBase, name: str) -> StateFile:
    """Read a whole file.

    Raises
    ------
    ConfigurationError
        If a newer release wrote the file in a format that this release does not know.
    DamagedExport
        If the file is damaged, incomplete, or not an export.
    """
    first = file.readline()
    origins, count = _read_header(first, name)
    digest = blake2b(first, digest_size=16)
    pools: list[PoolLine] = []
    for number, line in enumerate(file, start=2):
        data = _parse(line, f"{name}:{number}")
        if "checksum" in data:
            if data["checksum"] != digest.hexdigest():
                raise DamagedExport(f"{name}: is damaged: its checksum is not that of its lines")
            if file.read(1) or len(pools) != count:
                raise DamagedExport(f"{name}: is damaged: it should have exactly {count:,} pools")
            return StateFile(origins, pools, data["checksum"])
        digest.update(line)
        pools.append(_read_pool(data, origins, f"{name}:{number}"))
    raise DamagedExport(f"{name}: is cut off: its last line, with the checksum, is missing")


def _read_header(line: bytes, name: str) -> tuple[dict[int, Origin], int]:
    header = _parse(line, f"{name}:1")
    if header.get("format") != FORMAT:
        raise DamagedExport(f"{name}: is not an export of {FORMAT}")
    version, release = header.get("version"), header.get("release")
    if isinstance(version, int) and version > VERSION:
        raise ConfigurationError(
            f"{name}: release {release} wrote it in format {version}, this release "
            f"({__version__}) reads up to format {VERSION}: import it with release {release} or "
            "a newer one"
        )
    try:
        origins = [_read_origin(origin) for origin in list_in("partitions", header["partitions"])]
        pools = whole_in("pools", header["pools"], 0, MOST)
    except (InvalidState, KeyError, TypeError) as error:
        raise DamagedExport(f"{name}:1: is damaged: {error}") from None
    if len({origin.partition for origin in origins}) < len(origins):
        raise DamagedExport(f"{name}:1: is damaged: a partition comes twice")
    return {origin.partition: origin for origin in origins}, pools


def _read_origin(data: Any) -> Origin:
    origin = Origin(**data)
    whole_in("partition", origin.partition, 0, MOST)
    latest = round(time.time() * 1000) + _AHEAD_MS
    whole_in(f"the clock of partition {origin.partition}", origin.clock, 0, latest)
    for pool, fingerprint in mapping_in("applied", origin.applied).items():
        text_in("applied", pool)
        text_in("applied", fingerprint)
    signed_at_in(origin.signed_at)
    return origin


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        data = json.loads(to_text(line))
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        data = None
    if not isinstance(data, dict):
        raise DamagedExport(f"{place}: is damaged, or not an export: not a JSON object")
    return data


def _read_pool(data: dict[str, Any], origins: dict[int, Origin], place: str) -> PoolLine:
    try:
        ((name, state),) = data["pool"].items()
        return PoolLine(origins[data["partition"]].partition, name, state)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DamagedExport(f"{place}: is damaged: not a pool") from None
