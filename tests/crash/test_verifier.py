"""The verifier finds what is wrong with a log: each case spoils a good one in one place."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from fair_allocator.log.base import Follower, LogClient
from fair_allocator.log.records import TOPICS, Incoming, Place, Record
from tests.support.served import ARMS, START, Served
from tests.support.verifier import Broken, Rules, verify

POOL: dict[str, Any] = {"arms": ARMS, "reward_timeout": 1.0, "default_reward": 0.5}
RULES = Rules(now=START + 60_000, remembered=1_000, pools={"p": POOL})


class Copy(LogClient):
    """The records of a log, to be changed at will.

    Checkpoints are left out: the chain would find any change.
    """

    def __init__(self, client: LogClient) -> None:
        self.topics = {topic: list(client.read(topic, 0)) for topic in TOPICS}
        self.topics["assignments"] = [
            record
            for record in self.topics["assignments"]
            if not (record.value or b"").startswith(b'{"type":"checkpoint"')
        ]

    @property
    def partitions(self) -> int:
        return 1

    def append_many(
        self, records: Iterable[Incoming], *, atomic: bool = False
    ) -> list[tuple[int, int]]:
        raise NotImplementedError

    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        return iter(self.topics[topic])

    def follow(self, positions: Mapping[Place, int]) -> Follower:
        raise NotImplementedError

    def start_offset(self, topic: str, partition: int) -> int:
        return 0

    def end_offset(self, topic: str, partition: int) -> int:
        return len(self.topics[topic])

    def close(self) -> None: ...

    def change(self, place: int, **fields: Any) -> None:
        """Let the assignments' record at a place say something else."""
        records = self.topics["assignments"]
        event = json.loads(records[place].value or b"")
        assert fields.keys() <= event.keys()
        records[place] = records[place]._replace(value=json.dumps(event | fields).encode())


@pytest.fixture(scope="module")
def log() -> Copy:
    """Return a log with one record of every kind, and where they lie in it.

    Assignments: 0 epoch, 1 to 4 answers, 5 a repeat, 6 tick, 7 a pause, 8 a request waits, 9 the
    pool goes on, 10 a late answer, 11 epoch.
    """
    served = Served({"p": POOL})
    for number in range(4):
        served.request(f"r{number}")
    served.request("r1")
    served.send("requests", b"poison")
    served.turn()
    served.reward("r0", 1)
    served.reward("r0", 1)
    served.send("rewards", b"poison")
    served.turn()
    served.turn(now=2.0)
    served.control("pause")
    served.turn()
    served.request("r9")
    served.turn()
    served.control("resume")
    served.turn()
    served.control("configure", tolerance=1)
    served.turn()
    copy = Copy(served.client)
    served.die()
    return copy


def kinds(log: Copy) -> list[str]:
    return [json.loads(record.value or b"")["type"] for record in log.topics["assignments"]]


def test_good_log_passes(log: Copy) -> None:
    after = ["control", "waiting", "control", "assignment", "epoch"]
    assert kinds(log) == ["epoch", *["assignment"] * 5, "tick", *after]
    counts = verify(Copy(log), RULES, chained=False)["p"]
    assert sum(pulls for pulls, _, _, _ in counts.values()) == 5
    assert sum(observed for _, _, observed, _ in counts.values()) == 4
    assert sum(total for _, _, _, total in counts.values()) == 1 + 3 * 0.5


def dropped(topic: str, place: int) -> Callable[[Copy], object]:
    return lambda log: log.topics[topic].pop(place)


def doubled(topic: str, place: int) -> Callable[[Copy], object]:
    return lambda log: log.topics[topic].insert(place, log.topics[topic][place])


def changed(place: int, **fields: Any) -> Callable[[Copy], object]:
    return lambda log: log.change(place, **fields)


def spoilt_bytes(log: Copy) -> None:
    letter = json.loads(log.topics["dead-letters"][0].value or b"")
    value = json.dumps(letter | {"value": "AAAA"}).encode()
    log.topics["dead-letters"][0] = log.topics["dead-letters"][0]._replace(value=value)


def swapped(log: Copy) -> None:
    records = log.topics["assignments"]
    records[2], records[3] = records[3], records[2]


CASES: dict[str, Callable[[Copy], object]] = {
    "an answer is missing": dropped("assignments", 2),
    "the last answer is missing": dropped("assignments", 4),
    "a repeat is missing": dropped("assignments", 5),
    "an answer comes twice": doubled("assignments", 2),
    "a repeat comes twice": doubled("assignments", 5),
    "answers out of order": swapped,
    "a dead letter is missing": dropped("dead-letters", 0),
    "the last dead letter is missing": dropped("dead-letters", 1),
    "a dead letter comes twice": doubled("dead-letters", 1),
    "a dead letter with other bytes": spoilt_bytes,
    "a repeat that is counted": changed(5, repeat=False),
    "a repeat with another arm": changed(5, arm="c"),
    "an answer of another pool": changed(3, pool="q"),
    "an answer to another request": changed(3, request_id="r7"),
    "an arm that is not there": changed(3, arm="z"),
    "a round left out": changed(4, round=5),
    "an epoch too late": changed(4, epoch=2),
    "the other partition": changed(4, partition=1),
    "the opening epoch is missing": dropped("assignments", 0),
    "a pause without a record": dropped("assignments", 7),
    "a bound out of nowhere": changed(11, bound=3),
    "a request that waits is lost": dropped("assignments", 8),
    "a request waits for another reason": changed(8, why="nobody-free"),
    "a late answer is missing": dropped("assignments", 10),
    "a late answer comes twice": doubled("assignments", 10),
    "a late answer to another request": changed(10, request_offset=2),
    "a late answer to another id": changed(10, request_id="r2"),
    "the pool goes on without a record": dropped("assignments", 9),
    "nobody served a": changed(2, arm="c"),
}


@pytest.mark.parametrize("spoil", list(CASES.values()), ids=list(CASES))
def test_spoilt_log_is_found(log: Copy, spoil: Callable[[Copy], object]) -> None:
    copy = Copy(log)
    spoil(copy)
    with pytest.raises(Broken):
        verify(copy, RULES, chained=False)
