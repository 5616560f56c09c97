"""Check the headers of the output records, without the code of the service."""

import json

from fair_allocator.log.base import LogClient
from fair_allocator.log.records import INPUTS, OUTPUTS, Headers
from tests.support.requirement import require

NAMES = ("traceparent", "tracestate", "correlation-id", "correlation_id")
LONGEST = 2_048


def expected(headers: Headers) -> dict[str, bytes]:
    """Return the headers of an input that its answers must have.

    Of each name, this is the last header, if it is not too long.
    """
    found: dict[str, bytes] = {}
    for name in NAMES:
        for other, value in headers:
            if other == name and len(value) <= LONGEST:
                found[name] = value
    return found


def verify_headers(client: LogClient) -> int:
    """Check that every output has the headers of its input; return how many outputs had some."""
    count = 0
    for partition in range(client.partitions):
        inputs = {
            (record.topic, record.offset): expected(record.headers)
            for topic in INPUTS
            for record in client.read(topic, partition)
        }
        for topic in OUTPUTS:
            for record in client.read(topic, partition):
                event = json.loads(record.value or b"")
                place = _letter(event) if topic == "dead-letters" else _cause(event)
                wanted = {} if place is None else inputs[place]
                require(len(dict(record.headers)) == len(record.headers), "twice:", record)
                require(dict(record.headers) == wanted, "headers", record, "not", wanted)
                count += bool(wanted)
    return count


def _letter(event: dict[str, object]) -> tuple[str, int]:
    return str(event["topic"]), int(str(event["offset"]))


def _cause(event: dict[str, object]) -> tuple[str, int] | None:
    """Return the place of the request that an assignments record answers; None if there is none."""
    if event["type"] not in ("assignment", "waiting", "refused"):
        return None
    folded = event["folded"]
    assert isinstance(folded, dict)
    own = "request_offset" not in event or (event["type"] == "waiting" and event.get("repeat"))
    offset = folded["requests"] - 1 if own else event["request_offset"]
    return "requests", int(str(offset))
