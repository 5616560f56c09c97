"""Whatever is sent, one dead letter comes of it, with its bytes, and the service goes on."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from fair_allocator.events import Refusal, Request, Reward, read_request, read_reward
from fair_allocator.shard.outbox import LETTER_VALUE_BYTES
from fair_allocator.shard.unusable import unusable
from tests.support.served import ARMS, Served

pytestmark = pytest.mark.slow


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served({"p": {"arms": ARMS}}, partitions=2)
    yield served
    served.die()


def request(**changes: Any) -> bytes:
    return json.dumps({"request_id": "r", "pool": "p", **changes}).encode()


def reward(**changes: Any) -> bytes:
    return json.dumps({"request_id": "good-0", "pool": "p", "value": 1, **changes}).encode()


def control(**changes: Any) -> bytes:
    return json.dumps({"action": "configure", "pool": "p", **changes}).encode()


UNREADABLE: dict[str, bytes | None] = {
    "no value": None,
    "empty": b"",
    "white space": b" \n\t ",
    "torn": b'{"request_id": "r", "po',
    "two values": b'{"request_id": "r", "pool": "p"}{}',
    "not JSON": b"request_id=r&pool=p",
    "single quotes": b"{'request_id': 'r', 'pool': 'p'}",
    "a comma too many": b'{"request_id": "r", "pool": "p",}',
    "Latin-1": '{"request_id": "é", "pool": "p"}'.encode("latin-1"),
    "UTF-16": '{"request_id": "r", "pool": "p"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"request_id": "r", "pool": "p"}',
    "surrogates in UTF-8": b'{"request_id": "\xed\xa0\x80", "pool": "p"}',
    "a lone surrogate": b'{"request_id": "\\ud800", "pool": "p"}',
    "half a pair": b'{"request_id": "r", "pool": "p", "more": "\\udc00x"}',
    "a raw control character": b'{"request_id": "a\x00b", "pool": "p"}',
    "zeros": bytes(100),
    "deep": b"[" * 60_000,
    "deep and closed": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "deep in an unknown field": b'{"request_id": "r", "pool": "p", "x": %s}'
    % (b"[" * 5_000 + b"]" * 5_000),
    "a number without end": b'{"request_id": "r", "pool": "p", "x": 1%s}' % (b"0" * 20_000),
}

NO_EVENT: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "a number": b"17",
    "a text": b'"r"',
    "an array": b'[{"request_id": "r", "pool": "p"}]',
    "an empty object": b"{}",
}

REQUESTS: dict[str, bytes] = {
    "no id": b'{"pool": "p"}',
    "no pool": b'{"request_id": "r"}',
    "an empty id": request(request_id=""),
    "a number as id": request(request_id=7),
    "null as id": request(request_id=None),
    "an array as id": request(request_id=["r"]),
    "an object as id": request(request_id={"r": 1}),
    "an id of 257 characters": request(request_id="x" * 257),
    "a pool of 300 characters": request(pool="p" * 300),
    "a number as pool": request(pool=1),
    "the last of two ids is bad": b'{"request_id": "r", "pool": "p", "request_id": 5}',
    "a time without a zone": request(time="2024-01-01T00:00:00"),
    "no time at all": request(time="tomorrow"),
    "true as time": request(time=True),
}

REWARDS: dict[str, bytes] = {
    "no value": b'{"request_id": "good-0", "pool": "p"}',
    "NaN": b'{"request_id": "good-0", "pool": "p", "value": NaN}',
    "Infinity": b'{"request_id": "good-0", "pool": "p", "value": Infinity}',
    "-Infinity": b'{"request_id": "good-0", "pool": "p", "value": -Infinity}',
    "beyond floats": b'{"request_id": "good-0", "pool": "p", "value": 1e400}',
    "above 1": reward(value=1.0001),
    "below 0": reward(value=-1e-9),
    "a text": reward(value="0.5"),
    "true": reward(value=True),
    "null": reward(value=None),
    "an array": reward(value=[1]),
}

PRIMES = [n for n in range(100_003, 110_000, 2) if all(n % d for d in range(3, 332, 2))]

CONTROLS: dict[str, bytes] = {
    "no action": b'{"pool": "p"}',
    "an unknown action": control(action="explode"),
    "arms in an array": control(arms=["a", "b"]),
    "arms without quotas": control(arms={"a": None}),
    "true as quota": control(arms={"a": True}),
    "an array as quota": control(arms={"a": [1]}),
    "NaN as quota": b'{"action": "configure", "pool": "p", "arms": {"a": NaN}}',
    "an arm without a name": control(arms={"": 1}),
    "an arm of 257 characters": control(arms={"a" * 257: 1}),
    "an arm of 50,000 characters": control(arms={"a" * 50_000: []}),
    "a timeout of 0": control(reward_timeout=0),
    "a timeout below 0": control(reward_timeout=-1),
    "an infinite timeout": b'{"action": "configure", "pool": "p", "reward_timeout": Infinity}',
    "a text as timeout": control(reward_timeout="1"),
    "a default above 1": control(default_reward=2),
    "an unknown rule": control(rule="whoever shouts"),
    "a number as learner": control(learner=1),
    "an array as learner": control(learner=["ucb1"]),
    "an empty learner": control(learner=""),
}

REFUSED: dict[str, bytes] = {
    "quotas whose sum has thousands of digits": control(
        arms={str(prime): f"{prime // 100}/{prime}" for prime in PRIMES[:800]}
    ),
    "quotas above 1": control(arms={"a": "0.7", "b": "0.7"}),
    "a quota below 0": control(arms={"a": -0.1}),
    "no arms": control(arms={}),
    "no number as quota": control(arms={"a": "a lot"}),
    "a division by 0": control(arms={"a": "1/0"}),
    "an endless quota": control(arms={"a": "1e9999999"}),
    "a tiny quota": control(arms={"a": "1e-9999999"}),
    "a quota of many digits": control(arms={"a": "0." + "1" * 30_000}),
    "a huge quota": control(arms={"a": 10**300}),
    "a tolerance below 0": control(tolerance=-1),
    "an endless tolerance": control(tolerance="1e5000"),
    "no number as tolerance": control(tolerance="some"),
    "an unknown learner": control(learner="oracle"),
    "a learner without a name": control(learner={"epsilon": 0.1}),
    "null as a learner's name": control(learner={"name": None}),
    "an array as a learner's name": control(learner={"name": ["ucb1"]}),
    "an unknown parameter": control(learner={"name": "ucb1", "self": 1}),
    "a text as parameter": control(learner={"name": "epsilon-greedy", "epsilon": "0.1"}),
    "NaN as parameter": b'{"action": "configure", "pool": "p",'
    b' "learner": {"name": "lfg", "eta": NaN}}',
    "a deep parameter": control(learner={"name": "ucb1", "x": json.loads("[" * 90 + "]" * 90)}),
    "rule none on the way": control(rule="none"),
    "an unproven rule": control(arms={"a": "1/2", "b": "1/2"}, rule="max-deficit"),
}

ODD_BUT_FINE: dict[str, tuple[str, bytes]] = {
    "unknown fields": ("requests", request(colour="red", nested={"a": [1, None]})),
    "NaN in an unknown field": ("requests", b'{"request_id": "r", "pool": "p", "x": NaN}'),
    "the last of two ids counts": (
        "requests",
        b'{"request_id": 5, "pool": "p", "request_id": "r"}',
    ),
    "white space around": ("requests", b"\n " + request() + b" \n"),
    "a pair of surrogates": ("requests", b'{"request_id": "\\ud83d\\ude00", "pool": "p"}'),
    "an escaped zero": ("requests", b'{"request_id": "\\u0000", "pool": "p"}'),
    "quotes and line ends": ("requests", request(request_id='"\n\\\u2028')),
    "an id of 256 wide characters": ("requests", request(request_id="\U0001f600" * 256)),
    "a time with a zone": ("requests", request(time="2024-01-01T00:00:00+05:30")),
    "a whole number": ("rewards", reward(value=1)),
    "a reward for nobody": ("rewards", reward(request_id="nobody")),
    "a timeout for ever": ("controls", control(reward_timeout=1e308)),
    "a timeout of a moment": ("controls", control(reward_timeout=1e-300)),
    "nothing to change": ("controls", control()),
    "nulls": ("controls", control(arms=None, tolerance=None, learner=None, rule=None)),
}


def cases() -> Iterator[Any]:
    for topic in ("requests", "rewards", "controls"):
        for name, value in UNREADABLE.items():
            yield pytest.param(topic, value, "not-json", id=f"{topic}: {name}")
        for name, value in NO_EVENT.items():
            yield pytest.param(topic, value, "bad-event", id=f"{topic}: {name}")
    for topic, bad in (("requests", REQUESTS), ("rewards", REWARDS), ("controls", CONTROLS)):
        for name, value in bad.items():
            yield pytest.param(topic, value, "bad-event", id=f"{topic}: {name}")
    for name, value in REFUSED.items():
        yield pytest.param("controls", value, "refused", id=f"controls: {name}")
    for topic in ("requests", "rewards", "controls"):
        yield pytest.param(topic, b'"' + b"x" * 65_536, "too-large", id=f"{topic}: too large")
        yield pytest.param(topic, bytes(3_000_000), "too-large", id=f"{topic}: huge")


def around(served: Served, topic: str, value: bytes | None, **where: Any) -> int:
    """Send a record between good ones, which must all be answered; return its offset."""
    served.serve("good-0")
    served.request("good-1")
    offset = served.send(topic, value, **where)
    served.request("good-2")
    served.turn()
    served.serve("good-3")
    answers = [event["request_id"] for event in served.out("assignment")]
    assert [each for each in answers if each.startswith("good")] == [f"good-{n}" for n in range(4)]
    return offset


@pytest.mark.parametrize(("topic", "value", "reason"), list(cases()))
def test_poison_becomes_one_dead_letter(
    served: Served, topic: str, value: bytes | None, reason: str
) -> None:
    offset = around(served, topic, value)
    (letter,) = served.letters()
    assert (letter.topic, letter.partition, letter.offset) == (topic, 0, offset)
    assert letter.reason == reason
    assert letter.original() == (b"p", None if value is None else value[:LETTER_VALUE_BYTES])
    assert letter.truncated == (len(value or b"") > LETTER_VALUE_BYTES)
    assert letter.message
    assert served.shard.offsets[topic] == served.client.end_offset(topic, 0)


@pytest.mark.parametrize(("topic", "value"), list(ODD_BUT_FINE.values()), ids=list(ODD_BUT_FINE))
def test_odd_records_are_served(served: Served, topic: str, value: bytes) -> None:
    around(served, topic, value)
    assert served.letters() == []


@pytest.mark.parametrize(
    "key",
    [None, b"", b"P", b"p ", b"\xff\xfe", b"q", b"p" * 100_000],
    ids=lambda key: repr(key)[:9],
)
@pytest.mark.parametrize(
    ("topic", "value"),
    [("requests", request()), ("rewards", reward()), ("controls", control(tolerance=2))],
)
def test_key_must_be_the_pool(served: Served, topic: str, value: bytes, key: bytes | None) -> None:
    around(served, topic, value, key=key)
    (letter,) = served.letters()
    assert letter.reason == "bad-key"
    assert letter.original() == (key, value)


def test_record_of_another_partitioner_is_told_apart(served: Served) -> None:
    around(served, "requests", request(), partition=1)
    (letter,) = served.letters()
    assert (letter.reason, letter.partition) == ("wrong-partition", 1)
    assert "murmur2" in letter.message
    assert "p" not in served.service.shards[1].table


@pytest.mark.parametrize("topic", ["requests", "rewards", "controls"])
def test_unknown_pool_is_a_dead_letter(served: Served, topic: str) -> None:
    value = {
        "requests": request(pool="q"),
        "rewards": reward(pool="q"),
        "controls": control(pool="q", action="pause"),
    }[topic]
    around(served, topic, value, key=b"q", partition=None)
    assert served.reasons() == ["unknown-pool"]


@pytest.mark.parametrize(("ahead", "reasons"), [(30, []), (31, ["from-the-future"])])
def test_timestamps_may_be_a_little_ahead(served: Served, ahead: float, reasons: list[str]) -> None:
    around(served, "requests", request(), at=ahead)
    assert served.reasons() == reasons
    clock = served.shard.table.clock
    assert (clock > 1_700_000_000_000) is (not reasons)


def test_refused_control_leaves_no_trace(served: Served) -> None:
    before = served.shard.table.dump(["p"])
    # Refused by the learner, and only while nobody was pulled.
    short = control(arms={"z": 0, "a": "1/3"}, learner={"name": "t-fair-ucb", "horizon": 1})
    for value in (short, *REFUSED.values()):
        served.send("controls", value)
        served.turn()
        assert served.shard.table.dump(["p"]) == before
    assert served.reasons() == ["refused"] * (1 + len(REFUSED))


# -- the two ways to read ---------------------------------------------------------------------


def verdict(read: Callable[[bytes], object], value: bytes) -> tuple[Refusal, str] | None:
    try:
        read(value)
    except ValidationError as error:
        return unusable(error).reason, str(unusable(error))
    return None


@pytest.mark.parametrize(
    ("model", "read", "values"),
    [
        (Request, read_request, {**UNREADABLE, **NO_EVENT, **REQUESTS, "good": request()}),
        (Reward, read_reward, {**UNREADABLE, **NO_EVENT, **REWARDS, "good": reward()}),
    ],
)
def test_service_reads_events_as_their_models_do(
    model: type[Request | Reward],
    read: Callable[[bytes], object],
    values: dict[str, bytes | None],
) -> None:
    verdicts = {
        what: (verdict(read, value), verdict(model.model_validate_json, value))
        for what, value in values.items()
        if value is not None
    }
    assert verdicts["good"] == (None, None)
    assert [what for what, (fields, whole) in verdicts.items() if fields != whole] == []
