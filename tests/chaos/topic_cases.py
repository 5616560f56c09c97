"""What happens to the topics: others write to them, they are full of large records, or gone."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from fair_allocator.log.kafka import driver
from fair_allocator.log.kafka.topics import new_topics
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.records import Incoming
from fair_allocator.shard.journal import PIECE
from tests.chaos.instance import Instance, eventually
from tests.chaos.site import PARTITIONS, POOLS, Site
from tests.support.pace import scaled
from tests.support.verifier import require


@contextmanager
def _foreign_transaction(site: Site, partition: int, *, abandoned: bool) -> Iterator[KafkaProducer]:
    """Leave a transaction open on a journal; if it is abandoned, the broker ends it before long."""
    producer = KafkaProducer(
        bootstrap_servers=site.settings.bootstrap_servers,
        transactional_id=f"{site.settings.group}-foreign",
        transaction_timeout_ms=round(1000 * scaled(8 if abandoned else 120)),
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.settings.topics["journal"], b"not ours", partition=partition).get(
            scaled(30)
        )
        yield producer
    finally:
        with suppress(KafkaError):
            producer.close(timeout=5)


def _is_open(site: Site) -> bool:
    """Tell whether the foreign transaction has not ended yet."""
    with site.admin() as admin:
        (found,) = admin.describe_transactions([f"{site.settings.group}-foreign"]).values()
    return str(found.state.value) == "Ongoing"


def foreign_transaction_during_restore(site: Site) -> None:
    """The journal's end lies in somebody's open transaction: restoring waits for it."""
    one = site.instance("one").serving(PARTITIONS)
    site.load(800 * site.intensity)
    for _ in range(site.rounds(1)):
        time.sleep(site.rng.uniform(0.2, 0.6))
        one.kill()
        held, abandoned = site.rng.randrange(1, PARTITIONS), site.rng.random() >= 0.5
        with _foreign_transaction(site, held, abandoned=abandoned) as producer:
            one.start().serving(held)
            time.sleep(1.0)
            lines = [line for line in one.said_lately().splitlines() if ", restored in " in line]
            past = [line for line in lines if f"partition {held}:" in line]
            # If so, it was open when this was said; a broker may have ended an abandoned one.
            is_open = _is_open(site)
            require(is_open or abandoned, "the transaction was not held open")
            require(not (past and is_open), "restored past an open transaction:", one.said_lately())
            if not abandoned:
                producer.abort_transaction()
            one.serving(PARTITIONS)


def rebalance_during_restore(site: Site) -> None:
    """Another joins while an instance restores, which answers the group only afterwards."""
    one = site.instance("one").serving(PARTITIONS)
    site.load(800 * site.intensity)
    for _ in range(site.rounds(1)):
        time.sleep(site.rng.uniform(0.2, 0.6))
        one.kill()
        abandoned = site.rng.random() >= 0.5
        with _foreign_transaction(site, PARTITIONS - 1, abandoned=abandoned) as producer:
            one.start().serving(PARTITIONS - 1)
            two = site.instance("two")
            time.sleep(1.5)
            if not abandoned:
                producer.abort_transaction()
            two.serving()
        code = two.terminate()
        require(code == 0, "stopped with", code, two.said()[-3000:])
        del site.instances["two"]


def oversize_in_and_out(site: Site) -> None:
    """Records above the limit come in; a batch's records, and an entry, exceed a message."""
    pool, home = POOLS[0], _home(POOLS[0])
    arms = {f"arm-{number:>040}": 0 for number in range(900)}
    quotas = ", ".join(f"{arm} = {quota}" for arm, quota in arms.items())
    large = [name for name in (f"large-{number}" for number in range(120)) if _home(name) == home]
    site.more_configuration = "".join(f"\n[pools.{n}]\narms = {{ {quotas} }}\n" for n in large)
    with site.reader() as client:
        for size in (65_536, 65_537, 400_000, 999_000):
            client.append("requests", pool.encode(), b" " * size, partition=home)
        client.append_many(
            Incoming("requests", b"k" * 200_000, b"{}", partition) for partition in range(4)
        )
    changes = [{"action": "configure", "arms": {**arms, f"a{n}": "1/2"}} for n in range(40)]
    site.send("controls", pool, *changes)  # 2 MB, read in one go
    site.send("requests", pool, *({"request_id": f"{n:>0250}"} for n in range(60)))
    site.instance("one").serving(PARTITIONS)
    eventually(lambda: _in_pieces(site, home), "an entry is written in pieces")


def _home(pool: str) -> int:
    home = partition_for(pool.encode(), PARTITIONS, "murmur2")
    assert home is not None
    return home


def _in_pieces(site: Site, partition: int) -> bool:
    with site.reader() as client:
        return any(record.key == PIECE for record in client.read("journal", partition))


def dead_letters_cannot_be_written(site: Site) -> None:
    """The dead-letter topic refuses records for a while: nothing is committed past them."""
    one = site.instance("one").serving(PARTITIONS)
    name, setting = site.settings.topics["dead-letters"], "max.message.bytes"
    for _ in range(site.rounds(1)):
        before = _failures(one)
        with site.admin() as admin:
            # The end of a transaction fits in, a dead letter does not.
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {setting: "100"})])
        site.send("requests", POOLS[0], {"request_id": 7})
        site.load(200)
        eventually(lambda b=before: _failures(one) > b, "a commit fails")  # type: ignore[misc]
        with site.admin() as admin:
            admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, name, [setting])])
        site.settle()


def dead_letters_deleted(site: Site) -> None:
    """The dead-letter topic is deleted and made again: nothing is committed meanwhile."""
    one = site.instance("one").serving(PARTITIONS)
    site.send("requests", POOLS[0], *({"request_id": f"r{n}"} for n in range(20)))
    site.settle()
    before = _failures(one)
    with site.reader() as client, closing(driver("kafka", site.settings).admin()) as admin:
        with site.admin() as deleting:
            deleting.delete_topics([site.settings.topics["dead-letters"]])
        # The broker says yes before it has done so, and takes records until then.
        eventually(lambda: "dead-letters" not in admin.partition_counts(), "the topic is gone")
        client.append("requests", POOLS[0].encode(), b"poison")
        eventually(lambda: _failures(one) > before, "a commit fails, or the service ends")
        admin.create({"dead-letters": new_topics(PARTITIONS, 1)["dead-letters"]})


def _failures(one: Instance) -> int:
    return one.said().count("restoring after") + (one.exit_code is not None)
