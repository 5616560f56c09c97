"""The errors of the core. Each has a message that says what to do.

FairAllocatorError
├── InvalidPool      quotas, tolerance, rule or learner that are not valid (a ValueError)
├── InvalidRequest   a request that asks for more than the pool can give (a ValueError)
│   ├── NobodyFree   every eligible arm is asleep, busy or at its cap
│   └── NobodyLeft   every eligible arm was given the request before
├── InvalidReward    a reward that is not a number in [0, 1], or names a wrong arm (a ValueError)
└── InvalidState     plain data that does not describe a pool (a ValueError)
"""


class FairAllocatorError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidPool(FairAllocatorError, ValueError):
    """A pool's configuration is not valid; nothing was changed."""


class InvalidRequest(FairAllocatorError, ValueError):
    """A request asks for arms or slots that the pool cannot give; nothing was counted."""


class NobodyFree(InvalidRequest):
    """Every arm that could take the request is asleep, busy or at its cap; nothing was counted."""


class NobodyLeft(InvalidRequest):
    """Every arm that could take the request has had it before; nothing was counted."""


class InvalidReward(FairAllocatorError, ValueError):
    """A reward is not a finite number in [0, 1], or names a wrong arm; nothing was counted."""


class LearnerWarning(UserWarning):
    """A learner failed or made an invalid choice; the pool decided without it."""


class InvalidState(FairAllocatorError, ValueError):
    """Plain data handed to ``from_state`` does not describe a pool."""


def shown(value: object) -> str:
    """Return a value as a short text on one line, for an error message."""
    try:
        text = repr(value)
    except ValueError:
        return f"{type(value).__name__} with too many digits to print"
    except Exception:
        return f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= 60 else f"{text[:57]}..."
