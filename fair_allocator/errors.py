"""Every error that this package raises on purpose. Each has a message that says what to do.

FairAllocatorError
├── InvalidPool            quotas, tolerance, rule or learner that are not valid
├── InvalidRequest         a request for arms or slots that the pool cannot give
│   ├── NobodyFree         every eligible arm is asleep, busy or at its cap
│   └── NobodyLeft         every eligible arm was given the request before
├── InvalidReward          a reward that is not a number in [0, 1]
├── InvalidState           plain data that does not describe a pool
├── ConfigurationError     settings that contradict each other or the log           exit 78
└── LogError               the log could not do what was asked                      exit 70
    ├── LogUnavailable     cannot be reached or opened, or is full: try again       exit 69
    │   └── LogMissing     does not exist yet                                       exit 69
    ├── LogLocked          another service is using it                              exit 69
    ├── LogReadOnly        may be read but not written                              exit 69
    ├── LogCorrupt         is damaged, or is not a log                              exit 70
    ├── LogTooNew          was written by a newer version                           exit 78
    ├── CommitFailed       the transaction may not have happened: restore           exit 69
    ├── OffsetGone         a position that the log does not have                    exit 70
    └── JournalBroken      a shard's journal has a gap, a fork or damage            exit 70
        └── DamagedPool    the snapshot's bytes of one pool are not its state       exit 70

A process that ends with one of these errors returns its exit code, as sysexits.h defines it. So a
supervisor can tell "try again" (69) from "a person must look" (70, 78).
"""

from typing import ClassVar

from fair_allocator.core.errors import (
    FairAllocatorError,
    InvalidPool,
    InvalidRequest,
    InvalidReward,
    InvalidState,
    NobodyFree,
    NobodyLeft,
)

__all__ = [
    "CommitFailed",
    "ConfigurationError",
    "DamagedPool",
    "FairAllocatorError",
    "InvalidPool",
    "InvalidRequest",
    "InvalidReward",
    "InvalidState",
    "JournalBroken",
    "LogCorrupt",
    "LogError",
    "LogLocked",
    "LogMissing",
    "LogReadOnly",
    "LogTooNew",
    "LogUnavailable",
    "NobodyFree",
    "NobodyLeft",
    "OffsetGone",
]

EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_CONFIG = 78


class ConfigurationError(FairAllocatorError, ValueError):
    """Settings contradict each other, or do not fit the log; nothing was changed."""

    exit_code: ClassVar[int] = EX_CONFIG


class LogError(FairAllocatorError):
    """The log could not do what was asked. Everything committed before is unchanged."""

    exit_code: ClassVar[int] = EX_SOFTWARE


class LogUnavailable(LogError):
    """The log cannot be reached, opened or written now; nothing is lost, try again."""

    exit_code: ClassVar[int] = EX_UNAVAILABLE


class LogMissing(LogUnavailable):
    """The log does not exist yet. A service makes it when it starts."""


class LogLocked(LogError):
    """Another service is using the log.

    Attributes
    ----------
    pid
        The id of its process; None if the process has not written its id yet.
    """

    exit_code: ClassVar[int] = EX_UNAVAILABLE

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class LogReadOnly(LogError):
    """The log may be read but not written."""

    exit_code: ClassVar[int] = EX_UNAVAILABLE


class LogCorrupt(LogError):
    """The log is damaged, or is not a log. More writes could destroy readable data."""


class LogTooNew(LogError):
    """The log was written by a newer version of this package; it was not touched."""

    exit_code: ClassVar[int] = EX_CONFIG


class CommitFailed(LogError):
    """A commit failed, and it may have happened or not: restore the state from the journal.

    The transaction happened as a whole or not at all. A restore shows which of the two is true.
    """

    exit_code: ClassVar[int] = EX_UNAVAILABLE


class OffsetGone(LogError):
    """A position is below the log's start or beyond its end, so its records do not exist."""


class JournalBroken(LogError):
    """A shard's journal has a gap, damage, or entries of two writers.

    No decision was made from it.
    """


class DamagedPool(JournalBroken):
    """The bytes of a pool in a snapshot are not a valid state. The other pools are still served."""
