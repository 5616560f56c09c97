"""One call and its answer, tried again where that helps; without a transport.

A *talk* is a generator. It yields what is to be done, a `Call` to make or a `Pause` to take, is
sent what came of it, and returns its result. The allocators run talks, one with blocking calls and
one with awaited ones; nothing else about them differs.
"""

import json
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from .errors import Unreachable

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before the second attempt, doubled with each further one up to the longest."""

LONGEST_RETRY_AFTER: Final = 30.0
"""Seconds: a server that wants to be left alone for longer is not waited for."""

BUSY: Final = 429
FULL: Final = "too-many-waiting"
AWAY: Final = frozenset({502, 503, 504})
"""Answers of a server, or of what stands before it, that cannot serve now."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to make."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    """How many seconds the server may take because we asked it to wait."""
    repeatable: bool = True
    """Whether making it twice is the same as making it once."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    content: Any
    """The JSON, None if it is none."""

    @classmethod
    def read(cls, status: int, headers: Mapping[str, str], body: bytes) -> "Reply":
        """Return the answer with these bytes as its body."""
        kind = headers.get("content-type", "").partition(";")[0]
        content = None
        if kind == "application/json" or kind.endswith("+json"):
            try:
                content = json.loads(body)
            except (ValueError, RecursionError):
                content = None
        return cls(status, headers, content)

    @property
    def retry_after(self) -> float | None:
        """After how many seconds the server wants to be asked again; a date is not read."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that got no answer."""

    error: Exception
    sent: bool
    """Whether the server may have got it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to do nothing."""

    seconds: float


Outcome = Reply | Failure | None
Result = TypeVar("Result")
Talk = Generator[Call | Pause, Outcome, Result]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried again, and after which pauses."""

    times: float = 5
    draw: Callable[[], float] = random.random
    """Returns a number in [0, 1), so that many clients do not come back at the same moment."""

    def pause(self, attempt: int, outcome: Reply | Failure) -> float | None:
        """Return the seconds until the next attempt, None if there is none; they count from 0."""
        asked = outcome.retry_after if isinstance(outcome, Reply) else None
        if attempt >= self.times or (asked or 0.0) > LONGEST_RETRY_AFTER:
            return None
        # The exponent is bounded, too: 2**attempt of a patient client would be no float any more.
        usual = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10)) * (0.5 + self.draw() / 2)
        return usual if asked is None else max(usual, asked * (1 + self.draw() / 4))


def always(call: Call) -> Callable[[], Call]:
    """Return a function that returns this call."""
    return lambda: call


def exchange(call: Callable[[], Call], retries: Retries) -> Talk[Reply]:
    """Make a call until it is answered; each attempt makes what `call` returns then.

    Raises
    ------
    Unreachable
        If there was no answer, also not to the last attempt.
    """
    attempt = 0
    while True:
        made = call()
        outcome = yield made
        assert outcome is not None  # noqa: S101  (only a pause has no outcome)
        if not passes(outcome):
            assert isinstance(outcome, Reply)  # noqa: S101  (a failure passes)
            return outcome
        pause = retries.pause(attempt, outcome) if may_repeat(made, outcome) else None
        if pause is None:
            if isinstance(outcome, Failure):
                raise unanswered(made, outcome, attempt + 1) from outcome.error
            return outcome
        yield Pause(pause)
        attempt += 1


def passes(outcome: Reply | Failure) -> bool:
    """Tell whether what went wrong may be gone at the next attempt.

    A pool in which too many requests wait is a refusal: every attempt would be a dead letter.
    """
    if isinstance(outcome, Failure) or outcome.status in AWAY:
        return True
    return outcome.status == BUSY and reason_of(outcome) != FULL


def may_repeat(call: Call, outcome: Reply | Failure) -> bool:
    """Tell whether an attempt can have done no harm that a second one would double."""
    if call.repeatable:
        return True
    return not outcome.sent if isinstance(outcome, Failure) else outcome.status == BUSY


def reason_of(reply: Reply) -> str | None:
    """Return why the service refused, None if the answer does not say."""
    reason = reply.content.get("reason") if isinstance(reply.content, dict) else None
    return reason if isinstance(reason, str) else None


def unanswered(call: Call, failure: Failure, attempts: int) -> Unreachable:
    """Return the error of a call that nobody answered."""
    times = "" if attempts == 1 else f" in {attempts} attempts"
    message = f"no answer{times} to {call.method} {call.path}: {describe(failure.error)}"
    if not failure.sent:
        return Unreachable(f"{message}; check the address, and whether the allocator runs")
    if call.repeatable:
        return Unreachable(f"{message}; it may have arrived, and making the call again is safe")
    return Unreachable(
        f"{message}; it may have arrived, and was not sent again because it would count twice"
    )


def describe(error: Exception) -> str:
    """Return an error in words; some have no text of their own."""
    return str(error) or type(error).__name__
