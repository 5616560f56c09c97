"""What happens to services: they die, hang, come and go.

Every case breaks something on purpose under load; what is then held against the topics is the
same each time (see `Site.check`).
"""

import time

from kafka import KafkaAdminClient

from tests.chaos.instance import TRY_AGAIN, Instance, eventually
from tests.chaos.site import PARTITIONS, Site
from tests.support.pace import scaled
from tests.support.verifier import require


def killed_at_random_moments(site: Site) -> None:
    """`kill -9`, again and again, anywhere between the start and the next commit."""
    one = site.instance("one")
    site.load(1_600 * site.intensity)
    for _ in range(site.rounds(4)):
        time.sleep(site.rng.uniform(0.2, 1.8))
        one.kill()
        one.start()


def stopped_under_load(site: Site) -> None:
    """SIGTERM lets it finish the step and exit 0, whatever comes in."""
    one = site.instance("one").serving(PARTITIONS)
    site.load(800 * site.intensity)
    for _ in range(site.rounds(2)):
        time.sleep(site.rng.uniform(0.05, 0.5))
        one.stopped()
        one.start().serving(PARTITIONS)


def zombie_comes_back(site: Site) -> None:
    """An instance hangs for longer than its session, another takes over, the first goes on."""
    one, two = site.instance("one"), site.instance("two")
    one.serving()
    two.serving()
    site.load(2_400 * site.intensity)
    for round in range(site.rounds(2)):
        asleep, awake = (one, two) if round % 2 == 0 else (two, one)
        time.sleep(site.rng.uniform(0.2, 0.6))
        live = awake.restored(), awake.kept()
        asleep.suspend()
        before = asleep.restored(), asleep.kept()
        # Until it is given up: shards are restored meanwhile that an earlier rebalance moved.
        eventually(lambda a=asleep: a.name not in site.members(), "it is given up")  # type: ignore[misc]
        time.sleep(site.rng.uniform(0.0, 0.5))
        site.await_back(awake, *live)  # it keeps those that it had not heard of losing
        asleep.resume()
        site.await_back(asleep, *before)


def instances_come_and_go(site: Site) -> None:
    """Two and three instances share the partitions, join, leave and die under load."""
    one = site.instance("one").serving(PARTITIONS)
    site.load(2_000 * site.intensity)
    two, three = site.instance("two"), site.instance("three")
    for _ in range(site.rounds(1)):
        two.serving()
        three.serving()
        two.stopped()
        three.kill()
        three.start()
        two.start()
        one.kill()
        one.start().serving()


def transaction_older_than_its_timeout(site: Site) -> None:
    """An instance hangs in a transaction until the broker aborts it, yet keeps its membership."""
    own = f"{site.settings.group}-hangs"
    patient = {"session_seconds": scaled(25.0), "transaction_seconds": scaled(1.0)}
    one = site.instance("one", transactional_id=own, **patient).serving(PARTITIONS)
    with site.admin() as admin:
        for _ in range(site.rounds(1)):
            before = one.said().count("restoring after")
            site.load(1_600)
            eventually(lambda: _hung(site, one, admin, own), "it hangs in a transaction")
            eventually(
                lambda b=before: one.said().count("restoring after") > b,  # type: ignore[misc]
                "it restores after a transaction that the broker aborted",
            )


def _hung(site: Site, one: Instance, admin: KafkaAdminClient, transactional_id: str) -> bool:
    """Suspend it at some moment; if that is in a transaction, until the broker has aborted it."""

    def state() -> str:
        (found,) = admin.describe_transactions([transactional_id]).values()
        return str(found.state.value)

    if all(load.is_done for load in site.loads):
        site.load(400)  # without inputs there are hardly any transactions to hang in
    time.sleep(site.rng.uniform(0.0, 0.05))
    one.suspend()
    try:
        if state() != "Ongoing":
            return False
        eventually(lambda: state().startswith("Complete"), "the transaction ends")
        return state() == "CompleteAbort"  # else its end was on the way already
    finally:
        one.resume()


def same_transactional_id_twice(site: Site) -> None:
    """Two instances are given one transactional id: each ends what the other has under way."""
    own = f"{site.settings.group}-same"  # other tests use the same broker
    two = site.instance("two", transactional_id=own).serving(PARTITIONS)
    site.load(800, per_second=200)
    one = site.instance("one", transactional_id=own).serving()
    eventually(
        lambda: "kafka.transactional_id" in one.said() + two.said(),
        "the collision is explained",
    )
    one.kill()
    del site.instances["one"]


def same_instance_twice(site: Site) -> None:
    """Two processes are given one name: one of them ends and says why, the other goes on."""
    first = site.instance("one").serving(PARTITIONS)
    site.load(2_000)
    second = site.instance("one")
    eventually(lambda: (first.exit_code, second.exit_code) != (None, None), "one of them ends")
    require(None in (first.exit_code, second.exit_code), "both have ended:", first.said()[-3000:])
    ended = first if first.exit_code is not None else second
    require(ended.exit_code == TRY_AGAIN, "ended with", ended.exit_code, ended.said()[-3000:])
    require("kafka.instance" in ended.said(), "the way out is not named:", ended.said()[-3000:])
    site.instances["one"] = second if ended is first else first
