"""A peer the service is held against: Quix Streams, at the same job as far as it goes.

    PYTHON benchmarks/kafka_quix.py SERVERS PREFIX      until it is ended

It does not install beside our own client, so PYTHON is that of an environment of its own (`make
quix`), and nothing of ours is imported. Exactly once: it reads requests and rewards as one stream
in the order of their times, which is how two topics come to share a state there, answers every
request with one of ten arms by UCB1, and commits answers, positions and the changelog of its state
in one transaction. The state of a pool (pulls and sums, and the arm of every open request, which
its reward is for) is in RocksDB, in the folder `state` of where it is run. An answer is as long as
ours.

It does less than the service: no minimum share holds at any round, a repeated request id is
answered anew, a request without a reward stays open for ever, what cannot be parsed ends it instead
of becoming a dead letter, no pool can be configured, and no answer can be audited.

What of the client's settings decides speed is as the service has it. The rest is where it did well
in both: by default it commits every five seconds and waits a second for a full batch; committing
every 100 ms instead of 20 doubled the latency, and what it gained in speed was lost in the spread.
"""

import sys
from math import log, sqrt
from typing import Any

from quixstreams import Application, State

ARMS = 10
COMMIT_SECONDS, POLL_SECONDS = 0.02, 0.005


def ucb1(pulls: list[int], sums: list[float]) -> int:
    if 0 in pulls:
        return pulls.index(0)
    width = 2 * log(sum(pulls))
    indices = [total / n + sqrt(width / n) for n, total in zip(pulls, sums, strict=True)]
    return indices.index(max(indices))


def dealt_with(event: dict[str, Any], state: State) -> list[dict[str, Any]]:
    """Fold a request or a reward into the state of its pool; return the answers there are."""
    request = event["request_id"]
    pulls, sums = state.get("arms") or ([0] * ARMS, [0.0] * ARMS)
    if "value" in event:
        arm = state.get(request)
        if arm is not None:
            state.delete(request)
            sums[arm] += event["value"]
            state.set("arms", (pulls, sums))
        return []
    arm = ucb1(pulls, sums)
    pulls[arm] += 1
    state.set(request, arm)
    state.set("arms", (pulls, sums))
    answer = {
        "type": "assignment",
        "pool": event["pool"],
        "request_id": request,
        "arm": f"arm-{arm}",
        "round": sum(pulls),
        "reason": "learner",
        "pulls": pulls,
        "sums": sums,
    }
    return [answer]


def main(servers: str, prefix: str) -> None:
    application = Application(
        servers,
        consumer_group=f"{prefix}quix",
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECONDS,
        consumer_poll_timeout=POLL_SECONDS,
        consumer_extra_config={
            "fetch.wait.max.ms": 100,
            "max.partition.fetch.bytes": 2**19,
            "session.timeout.ms": 120_000,  # it is suspended in the turns of others
        },
        producer_extra_config={
            "linger.ms": 5,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 2,
        },
        loglevel="WARNING",
    )
    requests, rewards, answers = (
        application.topic(prefix + topic) for topic in ("requests", "rewards", "assignments")
    )
    events = application.dataframe(requests).concat(application.dataframe(rewards))
    events.apply(dealt_with, stateful=True, expand=True).to_topic(answers)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
