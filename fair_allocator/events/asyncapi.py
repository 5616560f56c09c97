"""Describe the topics and their events in an AsyncAPI 3 document, which other tools can read."""

from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fair_allocator import __version__
from fair_allocator.events.inputs import (
    Configure,
    Decline,
    NamedArms,
    PoolControl,
    Request,
    Reward,
    SetArms,
)
from fair_allocator.events.outputs import (
    AssignmentEvent,
    CheckpointEvent,
    ControlEvent,
    DeadLetter,
    EpochEvent,
    RefusedEvent,
    RemovedEvent,
    TickEvent,
    WaitingEvent,
)

Json = dict[str, Any]
Models = tuple[type[BaseModel], ...]

PREFIX: Final = "fair-allocator."
"""The prefix of the topics' names. Another prefix can be set by `kafka.topic_prefix`."""

_CORRELATED: Final = (Request, Reward, Decline, AssignmentEvent, WaitingEvent, RefusedEvent)
"""Events that are about one request and have its id."""

_WITH_HEADERS: Final = (Request, AssignmentEvent, WaitingEvent, RefusedEvent, DeadLetter)
"""Events with headers. A request may have headers, and all its answers have the same ones."""

_WITHOUT_KEY: Final = (TickEvent, CheckpointEvent)
"""Events that do not belong to a pool."""

_HEADERS: Final[Json] = {
    "type": "object",
    "description": "Headers of a request that are copied unchanged to its answers.",
    "properties": {
        "traceparent": {"type": "string", "description": "W3C trace context."},
        "tracestate": {"type": "string", "description": "W3C trace context."},
        "correlation-id": {"type": "string", "description": "An id that the application chooses."},
        "correlation_id": {"type": "string", "description": "The same, under another common name."},
    },
}

_SENT: Final[dict[str, tuple[str, Models]]] = {
    "requests": ("Asks for arms.", (Request,)),
    "rewards": ("How assignments went, and who declined one.", (Reward, Decline)),
    "controls": (
        "Changes of pools and of their arms.",
        (Configure, PoolControl, SetArms, NamedArms),
    ),
}
_RECEIVED: Final[dict[str, tuple[str, Models]]] = {
    "assignments": (
        "The answers, and what an audit needs beside them. Read only committed records.",
        (
            AssignmentEvent,
            WaitingEvent,
            RefusedEvent,
            EpochEvent,
            ControlEvent,
            TickEvent,
            RemovedEvent,
            CheckpointEvent,
        ),
    ),
    "dead-letters": ("Inputs that could not be used, with their bytes.", (DeadLetter,)),
}


def asyncapi() -> Json:
    """Return the document for an application: it sends inputs and receives answers."""
    topics = _SENT | _RECEIVED
    models = [model for _, of_topic in topics.values() for model in of_topic]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "fair-allocator",
            "version": __version__,
            "description": (
                "The topics of a fair-allocator on Kafka, as an application sees them. Each record "
                "is one JSON object in UTF-8. Its key is the name of its pool. The partitioner is "
                "log.partitioner, murmur2 by default. All topics have the same number of "
                "partitions."
            ),
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0",
            },
        },
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": "{brokers}",
                "protocol": "kafka",
                "variables": {"brokers": {"default": "localhost:9092"}},
            }
        },
        "channels": {
            topic: _channel(topic, about, of_topic) for topic, (about, of_topic) in topics.items()
        },
        "operations": {
            **{f"send-{topic}": _operation("send", topic) for topic in _SENT},
            **{f"receive-{topic}": _operation("receive", topic) for topic in _RECEIVED},
        },
        "components": {
            "messages": {model.__name__: _message(model) for model in models},
            "schemas": {**_schemas(models), "Headers": _HEADERS},
            "correlationIds": {
                "request": {
                    "description": "The request that an event is about, within its pool.",
                    "location": "$message.payload#/request_id",
                }
            },
        },
    }


def _channel(topic: str, about: str, models: Models) -> Json:
    return {
        "address": PREFIX + topic,
        "description": about,
        "messages": {
            model.__name__: {"$ref": f"#/components/messages/{model.__name__}"} for model in models
        },
        "bindings": {"kafka": {"topic": PREFIX + topic, "bindingVersion": "0.5.0"}},
    }


def _operation(action: str, topic: str) -> Json:
    return {"action": action, "channel": {"$ref": f"#/channels/{topic}"}}


def _message(model: type[BaseModel]) -> Json:
    summary = (model.__doc__ or "").partition("\n")[0]
    message: Json = {
        "name": model.__name__,
        "summary": summary,
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
    }
    if model not in _WITHOUT_KEY:
        key = {"type": "string", "description": "The name of the pool."}
        message["bindings"] = {"kafka": {"key": key, "bindingVersion": "0.5.0"}}
    if model in _CORRELATED:
        message["correlationId"] = {"$ref": "#/components/correlationIds/request"}
    if model in _WITH_HEADERS:
        message["headers"] = {"$ref": "#/components/schemas/Headers"}
    return message


def _schemas(models: list[type[BaseModel]]) -> Json:
    _, found = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    schemas: Json = found["$defs"]
    return dict(sorted(schemas.items()))
