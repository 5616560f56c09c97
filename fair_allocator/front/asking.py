"""Turn a client's JSON into a record, or into a problem that names the wrong field.

Events are checked in the same way as the service checks them. So a client learns at once if its
event would become a dead letter. Some checks need what only the service knows, such as which
pools exist. Only the service makes these checks.
"""

import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pydantic import ValidationError
from pydantic_core import from_json

from fair_allocator.events import Decline, Refusal, controls, read_request, read_reward
from fair_allocator.events.inputs import (
    MOST_COMPARED,
    REQUEST_FIELDS,
    REWARD_FIELDS,
    unmeant,
    unmeant_control,
)
from fair_allocator.events.wire import quoted, to_json
from fair_allocator.front.outcomes import Key, key_of
from fair_allocator.log.parts import Splits
from fair_allocator.log.records import RECORD_BYTES, Headers, Incoming
from fair_allocator.signing import NotSigned, Senders, Signer
from fair_allocator.text import demanded
from fair_allocator.web.problem import Problem

_DECLINE_FIELDS: Final = frozenset(Decline.model_fields)


class Asked(NamedTuple):
    """A checked event, ready to be sent.

    `part` is the part of `pool` that gets it, or `pool` itself if the pool is not split.
    """

    pool: str
    part: str
    request_id: str
    record: Incoming

    @property
    def key(self) -> Key:
        """The pool (or part) and the id of the request that the event is, or is about."""
        return key_of(self.part, self.request_id)


def parse(body: bytes) -> Any:
    """Return the content of a JSON body.

    Raises
    ------
    Problem
        400 if the body is not JSON, or nested too deeply.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(
            400, f"the body is not JSON: {error}", reason=Refusal.NOT_JSON.value
        ) from None


class Reader:
    """Reads events of clients.

    Parameters
    ----------
    unknown
        What to do with unknown fields: "ignore", "check" or "refuse" (see `events.inputs.unmeant`).
    most_bytes
        How long a record's value may be.
    splits
        The split pools; an event for one of them goes to one of its parts.
    senders
        The senders whose signatures count; None if no sender has a key.
    signer
        Signs the controls of clients that do not sign them; None to leave them unsigned.
    """

    def __init__(
        self,
        unknown: str = "check",
        most_bytes: int = RECORD_BYTES,
        splits: Splits | None = None,
        senders: Senders | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._unknown = unknown
        self._most_bytes = min(most_bytes, RECORD_BYTES)
        self._splits = splits or Splits({}, "none")
        self._senders = senders
        self._signer = signer

    def part_of(self, pool: str, request_id: str) -> str:
        """Return the part of a pool that decides a request; the pool itself if it is not split."""
        return self._splits.part_of(pool, request_id)

    def parts(self, pool: str) -> tuple[str, ...]:
        """Return the parts of a pool; the pool alone if it is not split."""
        return self._splits.names(pool)

    def request(self, fields: Any, pool: str | None = None, headers: Headers = ()) -> Asked:
        """Read a request. If it has no id, give it one."""
        event = _fields(fields, pool)
        request_id = event.pop("request_id") if "request_id" in event else uuid4().hex
        # Put id and pool first, where even a truncated dead letter shows them.
        event = {"request_id": request_id, "pool": event.pop("pool", None), **event}
        asked = self._read("requests", event, self._check_request)
        return asked._replace(record=asked.record._replace(headers=headers)) if headers else asked

    def reward(self, fields: Any, pool: str | None = None) -> Asked:
        """Read a reward."""
        return self._read("rewards", _fields(fields, pool), self._check_reward)

    def decline(self, fields: Any, pool: str | None = None) -> Asked:
        """Read a decline; the field `type` may be missing."""
        event = {"type": "declined", **_fields(fields, pool)}
        return self._read("rewards", event, self._check_decline)

    def control(self, fields: Any, pool: str, client: str) -> list[Asked]:
        """Read a control of the client with this name; return one for each part of its pool."""
        event, parts = _fields(fields, pool), self.parts(pool)
        if parts != (pool,) and event.get("signature") is not None:
            raise _bad("the pool is split: send one signed control to each part", "signature")
        controls = (self._signed({**event, "pool": part}, client) for part in parts)
        several = [self._read("controls", each, self._check_control) for each in controls]
        return [asked._replace(pool=pool) for asked in several]

    def _signed(self, control: dict[str, Any], client: str) -> dict[str, Any]:
        """Sign a control for a client, if the API signs and the client did not."""
        if self._signer is None or control.get("signature") is not None:
            return control
        return self._signer.sign({**control, "by": self._signer.signed_for(client)})

    def _read(
        self,
        topic: str,
        event: dict[str, Any],
        check: Callable[[dict[str, Any], bytes], None],
    ) -> Asked:
        pool, request_id = event.get("pool"), event.get("request_id")
        if isinstance(pool, str) and isinstance(request_id, str):
            event["pool"] = self.part_of(pool, request_id)
        try:
            value = _encode(event)
        except (ValueError, RecursionError):
            raise _bad("an event may not have such a number or text") from None
        part = str(event.get("pool"))
        key = part.encode()
        if len(value) > self._most_bytes or len(key) + len(value) > RECORD_BYTES:
            raise Problem(
                413,
                f"the event takes {len(value):,} bytes, the limit is {self._most_bytes:,}",
                reason=Refusal.TOO_LARGE.value,
            )
        try:
            check(event, value)
        except ValidationError as error:
            raise _invalid(error, event) from None
        return Asked(str(pool), part, event.get("request_id", ""), Incoming(topic, key, value))

    def _check_request(self, event: dict[str, Any], value: bytes) -> None:
        read_request(value)
        self._check_fields(event, REQUEST_FIELDS)
        if event.get("eligible") is not None and event.get("needs") is not None:
            raise _bad("eligible and needs: give one of them", "needs")

    def _check_reward(self, event: dict[str, Any], value: bytes) -> None:
        read_reward(value)
        self._check_fields(event, REWARD_FIELDS)

    def _check_decline(self, event: dict[str, Any], value: bytes) -> None:
        Decline.model_validate_json(value)
        self._check_fields(event, _DECLINE_FIELDS)

    def _check_control(self, _event: dict[str, Any], value: bytes) -> None:
        wrong = unmeant_control(controls.validate_json(value), self._unknown)
        if wrong is not None:
            raise _bad(wrong)
        if self._senders is not None:
            try:
                self._senders.signer_of(from_json(value), round(time.time() * 1000))
            except NotSigned as error:
                raise Problem(403, str(error), reason=Refusal.NOT_SIGNED.value) from None

    def _check_fields(self, event: dict[str, Any], known: frozenset[str]) -> None:
        unknown = (field for field in event if field not in known)
        for field in islice(unknown, MOST_COMPARED):
            wrong = unmeant({field: None}, known, self._unknown)
            if wrong is not None:
                raise _bad(wrong, field)


def _encode(event: dict[str, Any]) -> bytes:
    """Return an event as JSON. Most events have only texts, which are encoded faster."""
    fields = [
        f"{quoted(name)}:{quoted(value) if type(value) is str else to_json(value)}"
        for name, value in event.items()
    ]
    return f"{{{','.join(fields)}}}".encode()


def _fields(fields: Any, pool: str | None) -> dict[str, Any]:
    """Return a copy of an event's fields, with the pool of the path if there is one."""
    if not isinstance(fields, dict):
        raise _bad("an event is a JSON object")
    if pool is None:
        return dict(fields)
    if fields.get("pool", pool) != pool:
        raise _bad("the pool of the body is not the pool of the path", "pool")
    return {"pool": pool, **fields}


def _bad(detail: str, field: str | None = None) -> Problem:
    reason = Refusal.BAD_EVENT.value
    if field is None:
        return Problem(422, detail, reason=reason)
    return Problem(422, detail, reason=reason, field=field)


def _invalid(error: ValidationError, event: dict[str, Any]) -> Problem:
    """Return a problem that says which field is wrong, and why."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = list(first["loc"])
    if place and place[0] == event.get("action"):
        del place[0]  # the first part of the place is the kind of the control
    field = ".".join(map(str, place))
    detail = demanded(first["msg"])
    return _bad(f"{field}: {detail}" if field else detail, field or None)
