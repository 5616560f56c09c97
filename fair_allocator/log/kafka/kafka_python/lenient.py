"""Read records whose header names are not UTF-8. Producers in other languages can send them.

The client treats such a record as damaged and never gets past it, so one producer could stop the
service for good. No setting of the client reaches the class that reads records. So we replace this
class for every consumer of the process. It reads all other records as before.
"""

from typing import Any, Final

from kafka.record import memory_records
from kafka.record.default_records import DefaultRecordBatch

_read: Final = DefaultRecordBatch._read_msg


class _Bytes(bytearray):
    """Bytes that always decode as text."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Bytes(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class LenientBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch that returns a record even if the name of a header is not UTF-8."""

    _buffer: Any

    def _read_msg(self) -> Any:
        try:
            return _read(self)
        except UnicodeDecodeError:
            self._buffer = _Bytes(self._buffer)
            return _read(self)


def install() -> None:
    """Let every consumer of this process read records whose header names are not UTF-8."""
    memory_records.DefaultRecordBatch = LenientBatch
