"""The errors of the core, each with a message that says what to do.

FairAllocatorError
├── InvalidPool      quotas, tolerance, rule or learner that cannot be served (a ValueError)
├── InvalidReward    a reward that is not a number in [0, 1] (a ValueError)
└── InvalidState     plain data that does not describe a pool (a ValueError)
"""


class FairAllocatorError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidPool(FairAllocatorError, ValueError):
    """A pool's configuration cannot be served; nothing was changed."""


class InvalidReward(FairAllocatorError, ValueError):
    """A reward is not a finite number in [0, 1]; nothing was counted."""


class InvalidState(FairAllocatorError, ValueError):
    """Plain data handed to ``from_state`` does not describe a pool."""


def shown(value: object) -> str:
    """Return a value as an error message shows it: on one line, and never too long."""
    try:
        text = repr(value)
    except ValueError:
        return f"{type(value).__name__} of too many digits to print"
    return text if len(text) <= 60 else f"{text[:57]}..."
