"""Why an input cannot be used, in words for whoever sent it."""

from pydantic import ValidationError

from fair_allocator.events import Reason


class Unusable(Exception):
    """An input that cannot be used: it becomes a dead letter."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def unusable(error: ValidationError) -> Unusable:
    """Say in one line what is wrong with an event."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return Unusable(Reason.NOT_JSON, problems[0]["msg"])
    texts = (f"{'.'.join(map(str, each['loc'])) or 'event'}: {each['msg']}" for each in problems)
    return Unusable(Reason.BAD_EVENT, "; ".join(list(texts)[:5]))
