"""An allocator in memory, for the tests of applications: no server, no log, no waiting.

It answers the same calls as the real allocator, and refuses the same wrong calls. It ignores
quotas: a request goes to the arm with the fewest requests so far, or to the first of these arms.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import httpx

from .fake_pool import FakePool, Problem
from .values import new_id

Json = dict[str, Any]
Answer = tuple[int, Json]

_ACTIONS: Final = (
    "configure",
    "remove",
    "pause",
    "resume",
    "set-arm",
    "remove-arm",
    "sleep",
    "wake",
)


class FakeServer:
    """The server's side of a fake allocator.

    Parameters
    ----------
    pools
        The arms of each pool: a list of names, or a mapping from names to tags.
    reassign
        Whether a request is given to another arm when its arm declines.

    Attributes
    ----------
    requests, rewards, declines, controls
        The events that came in, each as a dict that includes its pool.
    """

    def __init__(
        self,
        pools: Mapping[str, Iterable[str] | Mapping[str, Iterable[str]]],
        *,
        reassign: bool = False,
    ) -> None:
        self.requests: list[Json] = []
        self.rewards: list[Json] = []
        self.declines: list[Json] = []
        self.controls: list[Json] = []
        self._reassign = reassign
        self._pools: dict[str, FakePool] = {}
        self._published: list[Json] = []
        self._faults: list[Callable[[], Answer]] = []
        for name, arms in pools.items():
            self._pools[name] = self._new_pool(name, arms)

    def _new_pool(self, name: str, arms: Iterable[str] | Mapping[str, Iterable[str]]) -> FakePool:
        tags = arms if isinstance(arms, Mapping) else dict.fromkeys(arms, ())
        return FakePool(name, tags, self._published.append, self._reassign)

    # -- for tests ------------------------------------------------------------------------------

    def give_next(self, pool: str, *arms: str) -> None:
        """Give these arms to the pool's next request, instead of the usual choice."""
        self._pools[pool].give_next(arms)

    def fail_next(
        self, status: int | None = None, *, times: int = 1, reason: str | None = None
    ) -> None:
        """Let the next `times` calls fail with this status.

        Without a status, they get no answer.
        """

        def fail() -> Answer:
            if status is None:
                raise httpx.ConnectError("the fake was told to fail")
            return Problem(status, "the fake was told to fail", reason).answer()

        self._faults += [fail] * times

    # -- the wire -------------------------------------------------------------------------------

    def transport(self) -> httpx.MockTransport:
        """Return an httpx transport that sends requests to this server."""
        return httpx.MockTransport(self.handle)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        if self._faults:
            status, content = self._faults.pop(0)()
            return _response(status, content)
        path = request.url.raw_path.partition(b"?")[0].decode("ascii")
        parts = [unquote(part, errors="surrogatepass") for part in path.split("/")[1:]]
        try:
            match request.method, parts:
                case "GET", ["v1", "assignments"]:
                    return self._stream(request, None)
                case "GET", ["v1", "pools", pool, "assignments"]:
                    return self._stream(request, pool)
                case "GET", ["v1", "pools", pool, "requests", request_id]:
                    return _response(*self._find(pool, request_id))
                case "GET", ["api", "v1", "pools"]:
                    return _response(200, self._figures(request.url.params.get("search", "")))
                case "GET", ["api", "v1", "pools", pool]:
                    return _response(200, self._pool({"pool": pool}).figures())
                case "POST", ["v1", "pools", pool, kind] if kind in self._takes:
                    event = {**_object(request), "pool": pool}
                    return _response(*self._takes[kind](event))
                case "POST", ["v1", kind] if kind in self._takes and kind != "controls":
                    events = _batch(request)
                    return _response(200, [self._item(kind, event) for event in events])
        except Problem as problem:
            return _response(*problem.answer())
        return _response(*Problem(404, "there is no such path").answer())

    @property
    def _takes(self) -> Mapping[str, Callable[[Json], Answer]]:
        return {
            "requests": self._request,
            "rewards": self._reward,
            "declines": self._decline,
            "controls": self._control,
        }

    def _item(self, kind: str, event: Json) -> Json:
        try:
            status, content = self._takes[kind](event)
        except Problem as problem:
            status, content = problem.answer()
        return {"status_code": status, **content}

    # -- events ---------------------------------------------------------------------------------

    def _pool(self, event: Json) -> FakePool:
        name = _name(event, "pool")
        if name not in self._pools:
            raise Problem(404, f"there is no pool {name!r}", "unknown-pool", "pool")
        return self._pools[name]

    def _request(self, event: Json) -> Answer:
        event = {"request_id": new_id(), **event}
        request_id = _name(event, "request_id")
        pool = self._pool(event)
        answer = pool.request(request_id, event)
        self.requests.append(event)
        return answer

    def _find(self, pool: str, request_id: str) -> Answer:
        known = self._pools.get(pool)
        answer = None if known is None else known.find(request_id)
        if answer is None:
            raise Problem(
                404, "no such request is known here; asking again is safe", "unknown-request"
            )
        return answer

    def _reward(self, event: Json) -> Answer:
        value = event.get("value")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise Problem(422, "value is a number in [0, 1]", "bad-event", "value")
        return self._record(self.rewards, event)

    def _decline(self, event: Json) -> Answer:
        answer = self._record(self.declines, event)
        pool = self._pools.get(event["pool"])
        if pool is not None:
            pool.decline(event["request_id"], event.get("arm"))
        return answer

    def _record(self, events: list[Json], event: Json) -> Answer:
        known = {"pool": _name(event, "pool"), "request_id": _name(event, "request_id")}
        events.append(event)
        place = {"partition": 0, "offset": len(events) - 1}
        return 202, {**known, "status": "recorded", **place}

    def _control(self, event: Json) -> Answer:
        action = event.get("action")
        if action not in _ACTIONS:
            raise Problem(422, f"action is one of {', '.join(_ACTIONS)}", "bad-event", "action")
        name = _name(event, "pool")
        if action == "configure" and name not in self._pools:
            self._pools[name] = self._new_pool(name, ())
        if name in self._pools:
            self._pools[name].control(action, event)
        if action == "remove":
            self._pools.pop(name, None)
        self.controls.append(event)
        place = {"partition": 0, "offset": len(self.controls) - 1}
        return 202, {"pool": name, "status": "recorded", **place}

    # -- looking --------------------------------------------------------------------------------

    def _figures(self, search: str) -> Json:
        rows = [pool.row() for name, pool in self._pools.items() if search in name]
        waiting = sum(row["waiting"] for row in rows)
        return {
            "overview": {"pools": len(self._pools), "waiting": waiting},
            "pools": {"total": len(rows), "page": 1, "pages": 1, "rows": rows},
        }

    def _stream(self, request: httpx.Request, pool: str | None) -> httpx.Response:
        last_id = request.headers.get("last-event-id")
        start = len(self._published) if last_id is None else int(last_id.partition(":")[2]) + 1
        stream = _Stream(self._published, start, pool)
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)


class _Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The assignments from a position on; it ends after the last one."""

    def __init__(self, published: Sequence[Json], start: int, pool: str | None) -> None:
        self._published = published
        self._next = start
        self._pool = pool

    def __iter__(self) -> Iterator[bytes]:
        while self._next < len(self._published):
            event, place = self._published[self._next], self._next
            self._next += 1
            if self._pool in (None, event["pool"]):
                yield f"id: 0:{place}\ndata: {json.dumps(event)}\n\n".encode()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self:
            yield data


def _response(status: int, content: object) -> httpx.Response:
    kind = "application/json" if status < 400 else "application/problem+json"
    body = json.dumps(content).encode()
    return httpx.Response(status, headers={"Content-Type": kind}, content=body)


def _content(request: httpx.Request) -> Any:
    try:
        return json.loads(request.read() or b"{}")
    except ValueError:
        raise Problem(400, "the body is not JSON", "not-json") from None


def _object(request: httpx.Request) -> Json:
    content = _content(request)
    if not isinstance(content, dict):
        raise Problem(422, "the body is a JSON object", "bad-event")
    return content


def _batch(request: httpx.Request) -> list[Json]:
    content = _content(request)
    if not isinstance(content, list):
        raise Problem(422, "the body is a JSON array", "bad-event")
    return content


def _name(event: Json, field: str) -> str:
    value = event.get(field)
    if not isinstance(value, str) or not 1 <= len(value) <= 256:
        raise Problem(422, f"{field} is a text of 1 to 256 characters", "bad-event", field)
    return value
