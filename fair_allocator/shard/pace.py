"""Limit the rate at which a pool takes requests, by a leaky bucket in whole numbers.

A leaky bucket gets fuller with each request and empties at a constant rate. While it is full,
requests are refused.
"""

from typing import Final

A_REQUEST: Final = 1_000
"""What a request adds to the bucket, in thousandths of a request, because time is in ms."""


class Pace:
    """Limits a pool to `rate` requests a second, and `burst` at once.

    In any s seconds at most ``burst + rate * s`` requests are taken. The time is the shard's time,
    so a restore and a replay take and refuse the same requests. Only requests that are taken fill
    the bucket.

    Attributes
    ----------
    level, at
        How full the bucket was after the last request, in thousandths of a request, and the time of
        that request.
    """

    __slots__ = ("at", "burst", "level", "rate")

    def __init__(self, rate: int, burst: int, level: int = 0, at: int = 0) -> None:
        self.rate = rate
        self.burst = burst
        self.level = level
        self.at = at

    def is_full(self, clock: int) -> bool:
        """Tell whether one more request at this time, in ms, would be too many."""
        return self._level(clock) + A_REQUEST > A_REQUEST * self.burst

    def take(self, clock: int) -> None:
        """Count a request at this time."""
        self.level = self._level(clock) + A_REQUEST
        self.at = clock

    def _level(self, clock: int) -> int:
        return max(0, self.level - self.rate * (clock - self.at))
