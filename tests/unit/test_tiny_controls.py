"""Many small controls to a large pool: the watchdog hears of each, and little is written."""

from collections.abc import Iterator
from typing import Any

import pytest

from fair_allocator.log import TOPICS
from tests.support.served import House, Served, houses

pytestmark = pytest.mark.slow

ARMS = 7_000
FEW = 60
"""Controls that change something: each looks at every arm."""


@pytest.fixture
def served() -> Iterator[Served]:
    with houses() as build:
        house: House = build
        arms = {f"a{number}": f"1/{2 * ARMS}" for number in range(ARMS)}
        served = house({"p": {"arms": arms, "bank": 1}}, service={"batch_records": 10_000})
        yield served


def sizes(served: Served) -> tuple[int, int]:
    """Return the bytes of the controls, and of everything that the service wrote."""
    found = {
        topic: sum(len(record.value or b"") for record in served.client.read(topic, 0))
        for topic in TOPICS
    }
    return found["controls"], found["assignments"] + found["dead-letters"] + found["journal"]


def feed(served: Served, count: int, controls: list[dict[str, Any]]) -> tuple[int, float]:
    """Serve controls in one batch; return how often the watchdog heard, and bytes out a byte in."""
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    served.service._heartbeat = beat
    bytes_in, bytes_out = sizes(served)
    for number in range(count):
        control = dict(controls[number % len(controls)])
        served.control(str(control.pop("action")), **control)
    served.service.step()
    more_in, more_out = sizes(served)
    assert served.reasons() == []
    return beats, (more_out - bytes_out) / (more_in - bytes_in)


def test_controls_that_change_nothing_for_the_arms_cost_nothing_for_the_arms(
    served: Served,
) -> None:
    controls: list[dict[str, Any]] = [
        {"action": "pause"},
        {"action": "resume"},
        {"action": "configure"},
        {"action": "configure", "rule": "auto"},
        {"action": "configure", "bank": 1},
        {"action": "configure", "requests": "plain"},
        {"action": "configure", "tolerance": 0},
        {"action": "configure", "learner": "ucb1"},
    ]
    beats, ratio = feed(served, 4_000, controls)
    assert beats >= 4_000
    assert ratio < 10


def test_controls_that_change_every_arm_write_what_changed(served: Served) -> None:
    controls: list[dict[str, Any]] = [
        {"action": "configure", "bank": 2},
        {"action": "configure", "bank": 1, "tolerance": 1},
        {"action": "configure", "rule": "earliest-deadline"},
        {"action": "configure", "tolerance": 0, "rule": "auto"},
        {"action": "set-arm", "arms": {"a0": {"quota": "1/20000"}}},
        {"action": "set-arm", "arms": {"a0": {"quota": f"1/{2 * ARMS}"}}},
    ]
    beats, ratio = feed(served, FEW, controls)
    assert beats >= FEW
    assert ratio < 10


def test_the_epochs_go_on_without_a_gap(served: Served) -> None:
    """Each configure opens an epoch, whether or not it changes anything."""
    served.serve("r0")
    for rule in ("auto", "earliest-deadline", "earliest-deadline", "auto"):
        served.control("configure", rule=rule)
    served.turn()
    served.serve("r1")
    numbers = [event["epoch"] for event in served.out("epoch") if event["chunk"] == 0]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 5
    assert served.out("assignment")[-1]["epoch"] == numbers[-1]
