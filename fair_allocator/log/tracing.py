"""Which headers of a request are copied to its answers: a trace context and a correlation id."""

from typing import Final

from fair_allocator.log.records import Headers

PASSED_ON: Final = frozenset(("traceparent", "tracestate", "correlation-id", "correlation_id"))
"""The header names of the W3C trace context, and two common names of a correlation id.

Attributes of CloudEvents (`ce_id`, `ce_type` and so on) are not copied, because they identify the
request. An answer with the same `ce_source` and `ce_id` would count as a copy of the request.
"""

VALUE_BYTES: Final = 2_048
"""A header with a longer value is not copied, so that the headers of an answer fit in any log."""


def passed_on(headers: Headers) -> Headers:
    """Return the headers to copy. If a name comes twice, the last value counts, as in Kafka.

    >>> passed_on((("ce_id", b"7"), ("traceparent", b"00-1"), ("traceparent", b"00-2")))
    (('traceparent', b'00-2'),)
    """
    last = {
        name: value for name, value in headers if name in PASSED_ON and len(value) <= VALUE_BYTES
    }
    return tuple(last.items())
