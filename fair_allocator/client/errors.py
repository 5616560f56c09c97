"""Every error of the client. Each has a message that says what to do.

AllocatorError
├── Waiting        there is no arm yet; the request is recorded, ask again with the same id
├── Refused        the allocator refuses the call; `reason` says why, `field` where
├── NotKnown       the server does not know this request; to send it again is safe
├── Unauthorised   the token is missing, wrong, or lacks the right
├── TooBusy        the server was too busy, even after all retries
├── Unreachable    no answer came, even after all retries
└── BadAnswer      the answer is not one of this API: another server, or another version
"""


class AllocatorError(Exception):
    """The base class of all errors of the client."""


class Waiting(AllocatorError):
    """A request is recorded but has no arm yet: `find` it later, or `assign` with the same id.

    Attributes
    ----------
    pool, request_id
        The request.
    why
        "nobody-free" or "paused" if the request waits in its pool, None if it is not decided yet.
    """

    def __init__(self, pool: str, request_id: str, why: str | None = None) -> None:
        cause = f"waits ({why})" if why else "is not decided yet"
        super().__init__(
            f"request {request_id!r} of pool {pool!r} {cause}; it is recorded: ask again with "
            "find(), or with assign() and the same id"
        )
        self.pool = pool
        self.request_id = request_id
        self.why = why


class Refused(AllocatorError):
    """The allocator refuses the call.

    Attributes
    ----------
    reason
        One word, as in the service's dead letters, such as "unknown-pool" or "bad-event".
    detail
        What is wrong, in words.
    field
        The name of the field that is wrong; None if the reason is not one field.
    """

    def __init__(self, reason: str, detail: str = "", field: str | None = None) -> None:
        place = f" ({field})" if field else ""
        super().__init__(f"{reason}{place}: {detail}" if detail else f"{reason}{place}")
        self.reason = reason
        self.detail = detail
        self.field = field


class NotKnown(AllocatorError):
    """The server does not know this request; perhaps it was restarted since then.

    Attributes
    ----------
    pool, request_id
        The request.
    """

    def __init__(self, pool: str, request_id: str) -> None:
        super().__init__(
            f"the server knows no request {request_id!r} of pool {pool!r}; assign() with the "
            "same id is safe: if it was decided before, it gets its first answer"
        )
        self.pool = pool
        self.request_id = request_id


class Unauthorised(AllocatorError):
    """The token is missing or wrong, or it lacks the right for this call."""


class TooBusy(AllocatorError):
    """The server was too busy, even after all retries.

    Attributes
    ----------
    retry_after
        How many seconds the client should wait before it asks again, None if the server does not
        say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unreachable(AllocatorError):
    """No answer came, but the server may have received the call."""


class BadAnswer(AllocatorError):
    """The answer is not one of this API."""
