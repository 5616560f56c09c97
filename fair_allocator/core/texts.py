"""Read the texts that users pass in: names of arms and pools, ids of requests."""

from fair_allocator.core.errors import FairAllocatorError, shown


def parse_text(value: object, what: str, error: type[FairAllocatorError]) -> str:
    """Return a text of Python or numpy as a plain str; raise `error` for any other value.

    >>> from fair_allocator.core.errors import InvalidPool
    >>> parse_text(5, "a pool's name", InvalidPool)
    Traceback (most recent call last):
    fair_allocator.core.errors.InvalidPool: a pool's name must be a text, got 5
    """
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise error(f"{what} must be a text, got {shown(value)}")
    return str(value)
