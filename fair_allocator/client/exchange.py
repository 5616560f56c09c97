"""One call and its answer, with retries where they help, independent of how bytes are sent.

A *talk* is a generator that describes a call with its retries. It yields steps: a `Call` to make or
a `Pause` to take. The client executes each step and sends the outcome to the generator. At the end
the generator returns its result. In this way the blocking client and the asyncio client share all
code except the execution of steps.
"""

import json
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from .errors import Unreachable

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""The pause in seconds before the second attempt, and the longest pause.

The pause doubles with each attempt.
"""

LONGEST_RETRY_AFTER: Final = 30.0
"""If the server asks for a longer pause than this many seconds, the client does not retry."""

BUSY: Final = 429
FULL: Final = frozenset({"too-many-waiting", "too-many-requests", "no-memory"})
"""An answer 429 with one of these reasons is final. After any other 429 the client asks again."""
AWAY: Final = frozenset({502, 503, 504})
"""HTTP statuses that say that the server, or a proxy in front of it, cannot serve now."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to make."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    """How many seconds the call asks the server to wait."""
    repeatable: bool = True
    """Whether two such calls have the same effect as one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    """The headers, with names in lower case."""
    content: Any
    """The parsed JSON, None if the body is not JSON."""

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
        """The Retry-After header in seconds; None if it is missing or a date."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that got no answer."""

    error: Exception
    sent: bool
    """Whether the server may have received the call."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A number of seconds to wait."""

    seconds: float


Outcome = Reply | Failure | None
Result = TypeVar("Result")
Talk = Generator[Call | Pause, Outcome, Result]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often to make a call again, and after which pauses."""

    times: float = 5
    draw: Callable[[], float] = random.random
    """Returns a random number in [0, 1), so that many clients do not retry at the same moment."""

    def pause(self, attempt: int, outcome: Reply | Failure) -> float | None:
        """Return the seconds until the next attempt; None if there is none.

        The first attempt has the number 0.
        """
        asked = outcome.retry_after if isinstance(outcome, Reply) else None
        if attempt >= self.times or (asked or 0.0) > LONGEST_RETRY_AFTER:
            return None
        # The exponent has a limit, too: after many attempts, 2**attempt would overflow a float.
        usual = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10)) * (0.5 + self.draw() / 2)
        return usual if asked is None else max(usual, asked * (1 + self.draw() / 4))


def always(call: Call) -> Callable[[], Call]:
    """Return a function that returns this call."""
    return lambda: call


def exchange(call: Callable[[], Call], retries: Retries) -> Talk[Reply]:
    """Make a call until it is answered; `call` returns the call for each attempt.

    Raises
    ------
    Unreachable
        If there was no answer, not even to the last attempt.
    """
    attempt = 0
    while True:
        made = call()
        outcome = yield made
        assert outcome is not None  # noqa: S101  (only a `Pause` has the outcome None)
        if not passes(outcome):
            assert isinstance(outcome, Reply)  # noqa: S101  (`passes` is true for a `Failure`)
            return outcome
        pause = retries.pause(attempt, outcome) if may_repeat(made, outcome) else None
        if pause is None:
            if isinstance(outcome, Failure):
                raise unanswered(made, outcome, attempt + 1) from outcome.error
            return outcome
        yield Pause(pause)
        attempt += 1


def passes(outcome: Reply | Failure) -> bool:
    """Tell whether the call failed for a reason that may pass, so that a retry may succeed.

    If too many requests wait in a pool, this is a refusal: every further attempt would make one
    more dead letter.
    """
    if isinstance(outcome, Failure) or outcome.status in AWAY:
        return True
    return outcome.status == BUSY and reason_of(outcome) not in FULL


def may_repeat(call: Call, outcome: Reply | Failure) -> bool:
    """Tell whether it is safe to make the call again after this outcome."""
    if call.repeatable:
        return True
    return not outcome.sent if isinstance(outcome, Failure) else outcome.status == BUSY


def reason_of(reply: Reply) -> str | None:
    """Return the reason for a refusal, None if the answer has none."""
    reason = reply.content.get("reason") if isinstance(reply.content, dict) else None
    return reason if isinstance(reason, str) else None


def unanswered(call: Call, failure: Failure, attempts: int) -> Unreachable:
    """Return the error for a call that got no answer."""
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
    """Return the text of an error, or its class name if it has no text."""
    return str(error) or type(error).__name__
