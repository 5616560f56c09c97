"""The description of the API in OpenAPI 3.1, made from the table of operations and the models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from pydantic import TypeAdapter

from fair_allocator import __version__
from fair_allocator.events.inputs import Decline, Input, Request, Reward, controls
from fair_allocator.front import models
from fair_allocator.front.operations import DEFAULT_WAIT, MOST_AT_ONCE
from fair_allocator.front.streams import LAST_ID
from fair_allocator.web.access import Right

_REFERENCE: Final = "#/components/schemas/{model}"
_JSON, _PROBLEM, _EVENTS = "application/json", "application/problem+json", "text/event-stream"

_TIME: Final = {
    "type": ["string", "number", "null"],
    "description": "When it was asked: a date and time with its zone, or seconds since 1970.",
}

_COMMON: Final = (401, 403, 406, 408, 421, 431, 500, 503)
"""Statuses of problems that any operation may return."""

_BODY: Final = (400, 413, 415, 422, 429)
"""The further statuses with which an operation that takes a body may refuse a request."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    Attributes
    ----------
    name
        The method of `Operations` that handles it.
    body
        The schema of the body; "" if the operation takes no body.
    needs_body
        Whether the body is required.
    batch
        Whether the body is an array of objects with the schema `body`.
    answers
        The schema of the answer for each status.
    problems
        Statuses of problems, besides those of all operations.
    wait
        The default of the parameter `wait`; None if there is no such parameter.
    """

    name: str
    method: str
    path: str
    summary: str
    right: Right
    answers: Mapping[int, str]
    body: str = ""
    needs_body: bool = True
    batch: bool = False
    problems: Sequence[int] = ()
    wait: float | None = None


_REFUSALS: Final = (404, 409)

OPERATIONS: Final = (
    Operation(
        "ask",
        "POST",
        "/v1/pools/{pool}/requests",
        "Ask for an arm, and wait for the answer",
        Right.ASK,
        {200: "Assigned", 202: "Undecided"},
        body="RequestBody",
        needs_body=False,
        problems=_REFUSALS,
        wait=DEFAULT_WAIT,
    ),
    Operation(
        "find",
        "GET",
        "/v1/pools/{pool}/requests/{id}",
        "Get the state of a request",
        Right.ASK,
        {200: "Assigned", 202: "Undecided"},
        problems=(400, 404, 409, 413, 422, 429),
        wait=0.0,
    ),
    Operation(
        "reward",
        "POST",
        "/v1/pools/{pool}/rewards",
        "Tell how well an assignment went",
        Right.ASK,
        {202: "Recorded"},
        body="RewardBody",
    ),
    Operation(
        "decline",
        "POST",
        "/v1/pools/{pool}/declines",
        "Tell that an arm does not take its assignment",
        Right.ASK,
        {202: "Recorded"},
        body="DeclineBody",
    ),
    Operation(
        "control",
        "POST",
        "/v1/pools/{pool}/controls",
        "Change a pool",
        Right.CONTROL,
        {202: "Recorded"},
        body="ControlBody",
    ),
    Operation(
        "ask_many",
        "POST",
        "/v1/requests",
        "Ask for many arms at once",
        Right.ASK,
        {200: "Items"},
        body="RequestItem",
        batch=True,
        wait=DEFAULT_WAIT,
    ),
    Operation(
        "reward_many",
        "POST",
        "/v1/rewards",
        "Send many rewards",
        Right.ASK,
        {200: "Items"},
        body="RewardItem",
        batch=True,
    ),
    Operation(
        "decline_many",
        "POST",
        "/v1/declines",
        "Send many declines",
        Right.ASK,
        {200: "Items"},
        body="DeclineItem",
        batch=True,
    ),
    Operation(
        "watch",
        "GET",
        "/v1/pools/{pool}/assignments",
        "Follow the assignments of a pool",
        Right.READ,
        {200: _EVENTS},
        problems=(400, 410, 413, 422),
    ),
    Operation(
        "watch",
        "GET",
        "/v1/assignments",
        "Follow the assignments of all pools",
        Right.READ,
        {200: _EVENTS},
        problems=(400, 410, 413, 422),
    ),
)


def describe(most_wait: float) -> dict[str, Any]:
    """Return the whole description; clients may wait for `most_wait` seconds."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        described = _operation(operation, most_wait)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fair-allocator",
            "version": __version__,
            "description": "Ask for an arm. The answer comes once it is committed.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(operation: Operation, most_wait: float) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name if "{pool}" in operation.path else f"{operation.name}_all",
        "summary": operation.summary,
        "description": f"Needs the right to {operation.right}.",
        "parameters": _parameters(operation, most_wait),
        "responses": {str(s): _answer(s, name) for s, name in operation.answers.items()},
    }
    problems = {*_COMMON, *operation.problems, *(_BODY if operation.body else ())}
    described["responses"] |= {str(status): _problem(status) for status in sorted(problems)}
    if operation.body:
        schema: dict[str, Any] = {"$ref": _REFERENCE.format(model=operation.body)}
        if operation.batch:
            schema = {"type": "array", "maxItems": MOST_AT_ONCE, "items": schema}
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {_JSON: {"schema": schema}},
        }
    return described


def _parameters(operation: Operation, most_wait: float) -> list[dict[str, Any]]:
    name = {"type": "string", "minLength": 1, "maxLength": 256}
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": name}
        for part in ("pool", "id")
        if f"{{{part}}}" in operation.path
    ]
    if operation.wait is not None:
        parameters.append(
            {
                "name": "wait",
                "in": "query",
                "description": "Seconds to wait for an answer.",
                "schema": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": most_wait,
                    "default": operation.wait,
                },
            }
        )
    if operation.name == "watch":
        parameters.append(
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The id of the last event that was received.",
                "schema": {"type": "string", "pattern": f"^{LAST_ID}$"},
            }
        )
    return parameters


def _answer(status: int, name: str) -> dict[str, Any]:
    if name == _EVENTS:
        content: dict[str, Any] = {_EVENTS: {"schema": {"type": "string"}}}
    else:
        content = {_JSON: {"schema": {"$ref": _REFERENCE.format(model=name)}}}
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if name == "Undecided":
        seconds = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        place = {"description": "Where to ask again.", "schema": {"type": "string"}}
        answer["headers"] = {"Retry-After": seconds, "Location": place}
    return answer


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model="Problem")}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {_PROBLEM: {"schema": schema}},
    }


# -- schemas ------------------------------------------------------------------------------------


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    answers = (models.Assigned, models.Undecided, models.Recorded, models.Problem, models.Item)
    for model in answers:
        _lift(schemas, model.__name__, model.model_json_schema(ref_template=_REFERENCE))
    schemas["Items"] = {"type": "array", "items": {"$ref": _REFERENCE.format(model="Item")}}
    events: tuple[type[Input], ...] = (Request, Reward, Decline)
    for event in events:
        _lift(schemas, f"{event.__name__}Body", _without_pool(_sendable(event)))
        _lift(schemas, f"{event.__name__}Item", _sendable(event))
    control = controls.json_schema(ref_template=_REFERENCE)
    _lift(schemas, "ControlBody", control)
    for reference in control["discriminator"]["mapping"].values():
        name = reference.rpartition("/")[2]
        schemas[name] = _without_pool(schemas[name])
    return schemas


def _lift(schemas: dict[str, Any], name: str, schema: dict[str, Any]) -> None:
    """Add a schema and the schemas that it refers to."""
    schemas |= schema.pop("$defs", {})
    schemas[name] = schema


def _sendable(event: type[Input]) -> dict[str, Any]:
    """Return the schema of an event as clients may send it: without its id and type."""
    schema = TypeAdapter(event).json_schema(ref_template=_REFERENCE)
    made = {"type"} if event is not Request else {"type", "request_id"}
    if "time" in schema["properties"]:
        schema["properties"]["time"] = _TIME
    return schema | {"required": [name for name in schema["required"] if name not in made]}


def _without_pool(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an event whose pool is in the path."""
    properties = {name: each for name, each in schema["properties"].items() if name != "pool"}
    required = [name for name in schema.get("required", ()) if name != "pool"]
    kept = {key: value for key, value in schema.items() if key != "required"}
    return kept | {"properties": properties} | ({"required": required} if required else {})
