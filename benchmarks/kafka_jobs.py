"""The jobs of a bare loop on Kafka: the service's job written by hand, or only copying.

`ByHand` is what a team would write instead of using the service. It reads JSON, and decides with
the paper's algorithm over UCB1, with integers for the quotas. It counts each reward for the arm of
its request. A reward may be read before its request, because it is in another topic. Every change
is in the changelog, from which the state could be restored. The code is plain Python, while the
code of the service is compiled. It lacks what a service needs:

- A repeated request id gets a new answer.
- A request without a reward stays open for ever.
- A record that cannot be parsed stops the loop, instead of becoming a dead letter.
- All pools have the same arms, and quotas cannot change.
- An answer says too little for an audit.

`Copying` parses nothing, decides nothing and has no state. Its answers and its changelog are as
long as those of the service. It shows how fast client and broker can be at most.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import log, sqrt
from typing import Any, Protocol

ARMS = 10
QUOTAS, OF = [1] * ARMS, 2 * ARMS
"""The minimum shares are QUOTAS / OF, with one denominator for all arms."""

ANSWER = b"x" * 214
CHANGES = b"x" * 34
"""What `Copying` writes to the changelog for each record.

It is as long as the service's journal takes for a record.
"""


class Job(Protocol):
    """Handles one record after the other."""

    def request(self, partition: int, value: bytes) -> bytes:
        """Return the answer to a request."""

    def reward(self, partition: int, value: bytes) -> None:
        """Handle a reward."""

    def changes(self) -> Iterable[tuple[int, bytes]]:
        """Return for each partition what has changed since the last time."""


class Copying:
    """Answers without deciding anything."""

    def __init__(self) -> None:
        self._changed: Counter[int] = Counter()

    def request(self, partition: int, value: bytes) -> bytes:  # noqa: ARG002
        self._changed[partition] += 1
        return ANSWER

    def reward(self, partition: int, value: bytes) -> None:  # noqa: ARG002
        self._changed[partition] += 1

    def changes(self) -> Iterable[tuple[int, bytes]]:
        changed, self._changed = self._changed, Counter()
        return ((partition, CHANGES * count) for partition, count in changed.items())


class Pool:
    """Ten arms, with the requests that wait for a reward, and rewards that came before a
    request.
    """

    __slots__ = ("early", "open", "pulls", "rounds", "seen", "sums")

    def __init__(self) -> None:
        self.rounds = 0
        self.pulls = [0] * ARMS
        self.seen = [0] * ARMS
        self.sums = [0.0] * ARMS
        self.open: dict[str, int] = {}
        self.early: dict[str, float] = {}

    def picked(self) -> tuple[int, str]:
        """Return the arm that is owed most, or otherwise the choice of UCB1; count the pull."""
        rounds, seen = self.rounds, self.seen
        lacking = [quota * rounds - OF * n for quota, n in zip(QUOTAS, self.pulls, strict=True)]
        most = max(lacking)
        if most > 0:
            arm, reason = lacking.index(most), "fairness"
        else:
            arm, reason = self._ucb1(rounds, seen), "learner"
        self.rounds = rounds + 1
        self.pulls[arm] += 1
        return arm, reason

    def learn(self, arm: int, reward: float) -> None:
        self.seen[arm] += 1
        self.sums[arm] += reward

    def _ucb1(self, rounds: int, seen: list[int]) -> int:
        if 0 in seen:
            return self.pulls.index(min(self.pulls))
        width = 2 * log(rounds)
        indices = [total / n + sqrt(width / n) for total, n in zip(self.sums, seen, strict=True)]
        return indices.index(max(indices))


class ByHand:
    """Does the service's job: fair choices over UCB1."""

    def __init__(self) -> None:
        from orjson import dumps, loads

        self._loads, self._dumps = loads, dumps
        self._pools: defaultdict[str, Pool] = defaultdict(Pool)
        self._changed: defaultdict[int, list[Any]] = defaultdict(list)

    def request(self, partition: int, value: bytes) -> bytes:
        event = self._loads(value)
        name, request_id = event["pool"], event["request_id"]
        pool = self._pools[name]
        arm, reason = pool.picked()
        self._changed[partition].append((name, request_id, arm))
        if request_id in pool.early:
            pool.learn(arm, pool.early.pop(request_id))
        else:
            pool.open[request_id] = arm
        answer: bytes = self._dumps(
            {
                "pool": name,
                "request_id": request_id,
                "arm": f"arm-{arm}",
                "round": pool.rounds,
                "reason": reason,
            }
        )
        return answer

    def reward(self, partition: int, value: bytes) -> None:
        event = self._loads(value)
        name, request_id, reward = event["pool"], event["request_id"], event["value"]
        pool = self._pools[name]
        self._changed[partition].append((name, request_id, reward))
        if request_id in pool.open:
            pool.learn(pool.open.pop(request_id), reward)
        else:
            pool.early[request_id] = reward

    def unrewarded(self) -> int:
        """Return how many requests have no reward yet, plus how many rewards have no request
        yet.
        """
        return sum(len(pool.open) + len(pool.early) for pool in self._pools.values())

    def changes(self) -> Iterable[tuple[int, bytes]]:
        changed, self._changed = self._changed, defaultdict(list)
        return ((partition, self._dumps(changes)) for partition, changes in changed.items())


JOBS: dict[str, type[Job]] = {"by hand": ByHand, "copying": Copying}
