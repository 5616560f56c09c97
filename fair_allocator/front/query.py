"""What a client says besides its events: parameters of the query, and headers."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from fair_allocator.log.records import Headers
from fair_allocator.log.tracing import PASSED_ON, passed_on
from fair_allocator.web.problem import Problem

_TRACE: Final = sorted(PASSED_ON)


def traced(request: Request) -> Headers:
    """Return the headers that go with a request to its assignment."""
    find = request.headers.get
    found = ((name, value.encode("latin-1")) for name in _TRACE if (value := find(name)))
    return passed_on(tuple(found))


def parameters(request: Request, known: Sequence[str]) -> dict[str, str]:
    """Return the parameters of the query; refuse an unknown or repeated one."""
    query = request.scope["query_string"]
    if not query:
        return {}
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known or name in found:
            raise Problem(422, "the query has a parameter that is not known, or given twice")
        found[name] = value
    return found


def check_accept(request: Request, content_type: str) -> None:
    """Refuse a client that does not accept the content type of the answer."""
    accept = request.headers.get("accept", "*/*")
    if content_type in accept or "*/*" in accept:
        return
    family = content_type.partition("/")[0]
    if accept.strip() and f"{family}/*" not in accept:
        raise Problem(406, f"this is {content_type}")
