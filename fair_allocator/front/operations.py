"""What each path of the API does."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from fair_allocator.config import ApiSection
from fair_allocator.errors import LogError
from fair_allocator.front import answering
from fair_allocator.front.answers import Answers
from fair_allocator.front.asking import Asked, Reader, parse
from fair_allocator.front.line import Line
from fair_allocator.front.outcomes import Outcome, key_of
from fair_allocator.front.query import check_accept, parameters, traced
from fair_allocator.front.streams import CONTENT_TYPE, Streams, last_id
from fair_allocator.front.waiting import Asker, LogAway, Receipt
from fair_allocator.log.records import Headers
from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import read_json
from fair_allocator.web.problem import Problem

MOST_AT_ONCE: Final = 1_000
"""Events in one batch."""

STRETCH: Final = 50
"""How many events of a batch to read before the server answers other requests, such as health
checks."""

DEFAULT_WAIT: Final = 10.0
"""Seconds to wait for an answer if the client does not say how long."""

_JSON: Final = "application/json"

Item = dict[str, Any]
Read = Callable[[Any, str | None], Asked]


class Operations:
    """The handlers of the API's routes."""

    def __init__(
        self,
        settings: ApiSection,
        access: Access,
        reader: Reader,
        answers: Answers,
        line: Line,
        streams: Streams,
    ) -> None:
        self.in_flight = 0
        """How many events clients wait for now."""
        self._settings = settings
        self._access = access
        self._reader = reader
        self._answers = answers
        self.line = line
        self._streams = streams

    # -- requests -----------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        """Append a request, and wait for its answer."""
        self._admit(request, Right.ASK)
        wait = self._wait(request, DEFAULT_WAIT)
        body = await read_json(request)
        fields = parse(body) if body else {}
        asked = self._reader.request(fields, request.path_params["pool"], traced(request))
        with self._room(1):
            asker = self._submit(asked, wait)
            outcome = await self._answer(asked, asker, wait)
        return self._response(asked, asker, outcome)

    def _response(self, asked: Asked, asker: Asker, outcome: Outcome | None) -> Response:
        status, answer = _answer_of(asked, asker, outcome)
        if status == 200:
            return _json(answer)
        headers = {"Location": answering.location(asked.pool, asked.request_id)}
        return _json(answer, 202, headers | answering.RETRY)

    async def find(self, request: Request) -> Response:
        """Return what is known about a request."""
        self._admit(request, Right.ASK)
        wait = self._wait(request, 0.0)
        pool, request_id = request.path_params["pool"], request.path_params["id"]
        part = self._reader.part_of(pool, request_id)
        key = key_of(part, request_id)
        outcome = self._answers.find(key)
        if wait and (outcome is None or not outcome.is_final):
            with self._room(1):
                outcome = await self._look_for(key, wait)
        if outcome is None:
            if self.line.cannot_hear:
                raise answering.away(self.line.cannot_hear)
            raise Problem(
                404,
                "this request is not known here, perhaps not any more; to send it again with the "
                "same id is safe",
                reason="unknown-request",
            )
        if outcome.status == "refused":
            raise answering.refused(request_id, outcome)
        if outcome.status == "assigned":
            return _json(answering.assigned(pool, part, request_id, outcome, outcome.repeat))
        return _json(answering.undecided(pool, part, request_id, outcome), 202, answering.RETRY)

    async def _look_for(self, key: bytes, wait: float) -> Outcome | None:
        finder = self._answers.look_for(key)
        timer = asyncio.get_running_loop().call_later(wait, _finish, finder.future)
        try:
            await finder.future
        finally:
            timer.cancel()
            outcome = self._answers.leave(key, finder)
        return outcome

    async def ask_many(self, request: Request) -> Response:
        """Append requests, and wait until all of them are answered or the time is over."""
        self._admit(request, Right.ASK)
        wait = self._wait(request, DEFAULT_WAIT)
        events = _batch(await read_json(request))
        with self._room(len(events)):
            return _json(await self._ask_all(events, wait, traced(request)))

    async def _ask_all(self, events: list[Any], wait: float, headers: Headers) -> list[Item]:
        sent: list[tuple[Asked, Asker] | Problem] = []
        for number, event in enumerate(events):
            await _pause(number)
            try:
                asked = self._reader.request(event, None, headers)
            except Problem as problem:
                sent.append(problem)
            else:
                sent.append((asked, self._submit(asked, wait)))
        events.clear()  # free memory: the objects take many times the bytes of their JSON
        ending = asyncio.get_running_loop().time() + wait
        left = [each for each in sent if not isinstance(each, Problem)]
        try:
            answered = []
            while left:
                asked, asker = left.pop(0)
                answered.append(await self._answer_in_batch(asked, asker, ending))
        finally:
            for asked, asker in left:
                self._answers.leave(asked.key, asker)
        others = iter(answered)
        return [_item(each) if isinstance(each, Problem) else next(others) for each in sent]

    async def _answer_in_batch(self, asked: Asked, asker: Asker, ending: float) -> Item:
        wait = max(0.0, ending - asyncio.get_running_loop().time())
        try:
            outcome = await self._answer(asked, asker, wait)
            status, answer = _answer_of(asked, asker, outcome)
            return {"status_code": status, **answer}
        except Problem as problem:
            return _item(problem)

    def _submit(self, asked: Asked, wait: float) -> Asker:
        asker = self._answers.ask(asked.key, wait > 0)
        self.line.submit(asked.record, asker)
        return asker

    async def _answer(self, asked: Asked, asker: Asker, wait: float) -> Outcome | None:
        """Wait until a request is durable, and at most `wait` seconds for its answer."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(wait, self._answers.hurry, asker)
        try:
            await asker.future
        except LogAway as error:
            raise answering.away(str(error), asked.request_id) from None
        finally:
            timer.cancel()
            outcome = self._answers.leave(asked.key, asker)
        return outcome

    # -- events without an answer of their own ------------------------------------------------

    async def reward(self, request: Request) -> Response:
        """Record how well an assignment went."""
        return await self._record(request, Right.ASK, self._reader.reward)

    async def decline(self, request: Request) -> Response:
        """Record that an arm declines its assignment."""
        return await self._record(request, Right.ASK, self._reader.decline)

    async def control(self, request: Request) -> Response:
        """Record a change of a pool, in each of its parts if it is split."""
        client = self._admit(request, Right.CONTROL)
        parameters(request, ())
        fields = parse(await read_json(request))
        several = self._reader.control(fields, request.path_params["pool"], client)
        with self._room(len(several)):
            receipts = [self._send(asked) for asked in several]
            recorded = [
                await self._durable(asked, receipt)
                for asked, receipt in zip(several, receipts, strict=True)
            ]
        first, *others = recorded
        return _json(first | ({"others": others} if others else {}), 202)

    async def _record(self, request: Request, right: Right, read: Read) -> Response:
        self._admit(request, right)
        parameters(request, ())
        asked = read(parse(await read_json(request)), request.path_params["pool"])
        with self._room(1):
            return _json(await self._durable(asked, self._send(asked)), 202)

    def _send(self, asked: Asked) -> Receipt:
        """Append an event that has no answer of its own."""
        receipt = self._answers.receipt()
        self.line.submit(asked.record, receipt)
        return receipt

    async def _durable(self, asked: Asked, receipt: Receipt) -> Item:
        """Wait until an event is durable."""
        try:
            await receipt.future
        except LogAway as error:
            raise answering.away(str(error), asked.request_id) from None
        if receipt.place is None:  # cannot happen
            raise answering.away("the place is not known")
        return answering.recorded(asked.pool, asked.part, asked.request_id, receipt.place)

    async def reward_many(self, request: Request) -> Response:
        """Record rewards."""
        return await self._record_many(request, self._reader.reward)

    async def decline_many(self, request: Request) -> Response:
        """Record declines."""
        return await self._record_many(request, self._reader.decline)

    async def _record_many(self, request: Request, read: Read) -> Response:
        self._admit(request, Right.ASK)
        parameters(request, ())
        events = _batch(await read_json(request))
        sent: list[tuple[Asked, Receipt] | Problem] = []
        with self._room(len(events)):
            for number, event in enumerate(events):
                await _pause(number)
                try:
                    asked = read(event, None)
                except Problem as problem:
                    sent.append(problem)
                else:
                    sent.append((asked, self._send(asked)))
            events.clear()
            items = []
            for each in sent:
                try:
                    if isinstance(each, Problem):
                        raise each
                    items.append({"status_code": 202, **await self._durable(*each)})
                except Problem as problem:
                    items.append(_item(problem))
        return _json(items)

    # -- streams ------------------------------------------------------------------------------

    async def watch(self, request: Request) -> Response:
        """Send the assignments of a pool, or of all pools, as they are committed."""
        self._access.require(request, Right.READ)
        check_accept(request, CONTENT_TYPE)
        parameters(request, ())
        start = None
        given = request.headers.get("last-event-id")
        if given:
            start = last_id(given)
            if start is None:
                raise Problem(400, "this is no id of an event", field="Last-Event-ID")
        if request.method == "HEAD":
            return Response(headers={"content-type": CONTENT_TYPE})
        if self.line.cannot_hear:
            raise answering.away(self.line.cannot_hear)
        try:
            pool = request.path_params.get("pool")
            parts = None if pool is None else self._reader.parts(pool)
            return await self._streams.respond(parts, start)
        except LogError as error:
            raise answering.away(str(error)) from None

    # -- checks of all operations -------------------------------------------------------------

    def _admit(self, request: Request, right: Right) -> str:
        """Check that a client may do something now; return the name of its token, or ""."""
        token = self._access.require(request, right)
        check_accept(request, _JSON)
        if request.method == "POST" and self.line.cannot_append:
            raise answering.away(self.line.cannot_append)
        return "" if token is None else token.name

    def _wait(self, request: Request, default: float) -> float:
        most = self._settings.max_wait_seconds
        text = parameters(request, ("wait",)).get("wait")
        if text is None:
            return min(default, most)
        try:
            wait = float(text)
        except ValueError:
            wait = -1.0
        if not 0 <= wait <= most:
            raise Problem(422, f"wait: give seconds from 0 to {most:g}", field="wait")
        return wait

    def _room(self, count: int) -> "_Room":
        """Count events as in flight while a block runs; refuse them if there are too many."""
        if self.in_flight + count > self._settings.max_in_flight:
            raise Problem(
                429,
                f"api.max_in_flight ({self._settings.max_in_flight:,}) events are in flight",
                reason="too-many-in-flight",
                headers=answering.RETRY,
            )
        return _Room(self, count)


class _Room:
    """Counts events as in flight while a block runs."""

    __slots__ = ("_count", "_operations")

    def __init__(self, operations: Operations, count: int) -> None:
        self._operations = operations
        self._count = count

    def __enter__(self) -> None:
        self._operations.in_flight += self._count

    def __exit__(self, *_: object) -> None:
        self._operations.in_flight -= self._count


def _answer_of(asked: Asked, asker: Asker, outcome: Outcome | None) -> tuple[int, Item]:
    """Return the status and the answer to a request that is durable; raise if it is refused."""
    pool, part, request_id, _ = asked
    if outcome is None or not asker.is_answered():
        # Any other outcome may belong to an earlier request with the same id.
        known = outcome if outcome is not None and outcome.status == "waiting" else None
        return 202, answering.undecided(pool, part, request_id, known)
    if outcome.status == "refused":
        raise answering.refused(request_id, outcome)
    return 200, answering.assigned(pool, part, request_id, outcome, asker.repeat)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _batch(body: bytes) -> list[Any]:
    events = parse(body)
    if not isinstance(events, list):
        raise Problem(422, "send an array of events", reason="bad-event")
    if len(events) > MOST_AT_ONCE:
        raise Problem(413, f"a batch holds at most {MOST_AT_ONCE:,} events", reason="too-large")
    return events


async def _pause(number: int) -> None:
    """Let the server answer others now and then while it reads the events of a batch."""
    if number % STRETCH == STRETCH - 1:
        await asyncio.sleep(0)


def _item(problem: Problem) -> Item:
    return {"status_code": problem.status, **problem.content()}


def _json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, _JSON)
