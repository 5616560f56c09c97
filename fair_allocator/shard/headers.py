"""Which headers of an input go on to what comes of it."""

from typing import Final

from fair_allocator.log.base import Headers

PASSED_ON: Final = frozenset(("traceparent", "tracestate", "correlation-id", "correlation_id"))
"""The names of W3C trace context, and two usual names of a correlation id.

Attributes of CloudEvents (`ce_id`, `ce_type` and so on) are not among them. They say what the
request is, and an answer with the same `ce_source` and `ce_id` would be a copy of the request.
"""

VALUE_BYTES: Final = 2_048
"""A longer value is dropped, so that all that goes on fits within the limit of every log."""


def passed_on(headers: Headers) -> Headers:
    """Return the headers that go on, each name once: its last one counts, as in Kafka's clients.

    >>> passed_on((("ce_id", b"7"), ("traceparent", b"00-1"), ("traceparent", b"00-2")))
    (('traceparent', b'00-2'),)
    """
    last = {
        name: value for name, value in headers if name in PASSED_ON and len(value) <= VALUE_BYTES
    }
    return tuple(last.items())
