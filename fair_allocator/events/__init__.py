"""The events that the topics carry: each record is one JSON object in UTF-8.

model    what all events have in common
inputs   events that the service reads: requests, rewards, declines, controls
reading  reads requests and rewards fast
outputs  events that the service writes: assignments, other records for an audit, dead letters
wire     writes the JSON of assignments fast
asyncapi describes the topics and events for other tools
"""

from fair_allocator.events.inputs import (
    Configure,
    Control,
    Decline,
    NamedArms,
    PoolControl,
    PoolSettings,
    Request,
    Reward,
    SetArms,
    controls,
    input_events,
)
from fair_allocator.events.model import Name, Share
from fair_allocator.events.outputs import (
    AssignmentEvent,
    Caused,
    CheckpointEvent,
    ControlEvent,
    DeadLetter,
    EpochEvent,
    Folded,
    Pick,
    Published,
    Refusal,
    RefusedEvent,
    RemovedEvent,
    StatedArm,
    TickEvent,
    WaitingEvent,
    first_delivered,
    json_schema,
    out_events,
    redelivered,
)
from fair_allocator.events.reading import read_request, read_reward

__all__ = [
    "AssignmentEvent",
    "Caused",
    "CheckpointEvent",
    "Configure",
    "Control",
    "ControlEvent",
    "DeadLetter",
    "Decline",
    "EpochEvent",
    "Folded",
    "Name",
    "NamedArms",
    "Pick",
    "PoolControl",
    "PoolSettings",
    "Published",
    "Refusal",
    "RefusedEvent",
    "RemovedEvent",
    "Request",
    "Reward",
    "SetArms",
    "Share",
    "StatedArm",
    "TickEvent",
    "WaitingEvent",
    "controls",
    "first_delivered",
    "input_events",
    "json_schema",
    "out_events",
    "read_request",
    "read_reward",
    "redelivered",
]
