"""Do the service's job with Quix Streams, as far as possible, to compare the two.

    PYTHON benchmarks/kafka_quix.py SERVERS PREFIX      until it is ended

Quix Streams cannot be installed together with our client library. So PYTHON is the interpreter of a
separate environment (`make quix`), and this file imports nothing of our package.

The program works exactly once. It merges requests and rewards into one stream, in the order of
their times, because only in this way can two topics share a state in Quix Streams. It answers every
request with one of ten arms, chosen by UCB1. One transaction has the answers, the positions and the
changelog of the state. The state of a pool has the pulls, the sums of rewards, and the arm of every
open request. The state is in RocksDB, in the folder `state` of the working directory. An answer is
as long as an answer of the service.

It does less than the service:

- It guarantees no minimum share.
- A repeated request id gets a new answer.
- A request without a reward stays open for ever.
- A record that cannot be parsed stops the program, instead of becoming a dead letter.
- Pools cannot be configured, and answers cannot be audited.

The client's settings that decide speed are those of the service. The other settings were chosen for
both throughput and latency. By default Quix Streams commits every five seconds, and waits a second
for a full batch. Here it commits every 20 ms. With 100 ms the latency doubled, and the gain in
throughput was smaller than the spread of the measurements.
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
    """Apply a request or a reward to the state of its pool; return the answers to send."""
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
            "session.timeout.ms": 120_000,  # long, as it is suspended while others have their turns
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
