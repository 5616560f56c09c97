"""Delete each topic and make it again, under services of both clients: none may read on.

    python -m tests.chaos.remade
    python -m tests.chaos.remade --client confluent --topic journal --moment rebalance

Each topic is made again while a service runs, before it starts, and before it gains partitions of
another instance that died. If the topic is an input or the journal, the service must end with 78,
or with 70 if it meets the lost position first. It must name the reason, and `fair-allocator topics`
must find the fault. If the topic is an output, which nobody reads, the service must say so and go
on.
"""

import argparse
import io
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Final

from kafka.errors import KafkaError

from fair_allocator.cli import main as command
from fair_allocator.log.kafka import DELIVERIES, driver
from fair_allocator.log.kafka.topics import new_topics
from fair_allocator.log.records import OUTPUTS, TOPICS
from tests.chaos.__main__ import CLIENTS
from tests.chaos.instance import Instance, eventually
from tests.chaos.site import PARTITIONS, Site, site
from tests.support.broker.choice import private_broker
from tests.support.verifier import require

INPUTS_BEFORE: Final = 200
MISCONFIGURED: Final = 78
AGAIN: Final = "was deleted and made again"
POSITION_GONE: Final = 70
GONE: Final = "there is no position"
"""Said if the position was found to be gone a moment before the topic was seen to be another."""

EMPTY: Final = "the journal is empty, though inputs were decided"
"""Said of a journal that is new at the start: Kafka has forgotten the id of the one before."""


def running(played: Site, topic: str) -> Instance:
    """The topic is made again under a service that runs."""
    remake(played, topic)
    return played.instances["one"]


def start(played: Site, topic: str) -> Instance:
    """The topic is made again while the service is down."""
    one = played.instances["one"]
    one.stopped()
    remake(played, topic)
    return one.start()


def rebalance(played: Site, topic: str) -> Instance:
    """The topic is made again just before a service gains the partitions of one that died."""
    two = played.instance("two").serving()
    two.kill()
    del played.instances["two"]
    remake(played, topic)
    return played.instances["one"]


MOMENTS: Final[Mapping[str, Callable[[Site, str], Instance]]] = {
    moment.__name__: moment for moment in (running, start, rebalance)
}


def remake(played: Site, topic: str) -> None:
    """Delete a topic, and make it again."""
    with closing(driver("kafka", played.settings).admin()) as admin, played.admin() as deleting:
        before = admin.described()[topic].id
        deleting.delete_topics([played.settings.topics[topic]])
        eventually(lambda: topic not in admin.described(), f"{topic} is deleted")
        new = new_topics(PARTITIONS, 1)[topic]

        def made() -> bool:
            try:
                admin.create({topic: new})
            except KafkaError:  # the broker has not deleted all of it yet
                return False
            return admin.described()[topic].id != before

        eventually(made, f"{topic} is made again")


def play(played: Site, topic: str, moment: str) -> str:
    """Play one of them; return what was seen."""
    played.instance("one").serving(PARTITIONS)
    load = played.load(INPUTS_BEFORE)
    eventually(lambda: load.is_done, "all is sent")
    played.settle()
    one = MOMENTS[moment](played, topic)
    if topic in OUTPUTS:
        eventually(lambda: AGAIN in one.said(), "the service tells of it")
        played.load(INPUTS_BEFORE)
        played.settle()
        require(one.exit_code is None, "ended with", one.exit_code, one.said()[-3000:])
        return "told, and goes on"
    eventually(lambda: one.exit_code is not None, "the service ends")
    said = one.said_lately()
    known = one.exit_code == MISCONFIGURED and (AGAIN in said or EMPTY in said)
    gone = one.exit_code == POSITION_GONE and GONE in said
    require(known or gone, "ended with", one.exit_code, said[-3000:])
    shown = io.StringIO()
    with redirect_stdout(shown):
        code = command(["topics", "--config", str(played.configured(instance="looking"))])
    require(code == 1 and AGAIN in shown.getvalue(), "`topics` says", code, shown.getvalue())
    return f"ended with {one.exit_code}, seen by `topics`"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.remade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--delivery", choices=DELIVERIES, default=DELIVERIES[0])
    parser.add_argument("--topic", choices=TOPICS, action="append")
    parser.add_argument("--moment", choices=MOMENTS, action="append")
    arguments = parser.parse_args(argv)
    chosen = (arguments.client or CLIENTS, arguments.topic or TOPICS, arguments.moment or MOMENTS)
    failures = 0
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_broker(Path(folder, "broker")) as broker,
    ):
        for number, (client, topic, moment) in enumerate(product(*chosen)):
            how = {"delivery": arguments.delivery, "session_seconds": 1.0}
            place = Path(folder, str(number))
            with site(place, broker.bootstrap, CLIENTS[client], number, **how) as played:
                try:
                    seen = play(played, topic, moment)
                except Exception as error:
                    failures += 1
                    seen = f"FAILED: {str(error)[:2_000]}\n{played.last_words()}"
            print(f"{client}, {topic}, {moment}: {seen}", flush=True)
    print(f"{failures} of {number + 1} failed")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
