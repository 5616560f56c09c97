"""What happens to the broker: it dies and comes back, or hangs. It has to be one's own."""

import time

from tests.chaos.site import PARTITIONS, Site
from tests.support.broker.java import JavaBroker


def _own(site: Site) -> JavaBroker:
    assert site.broker is not None, "this case breaks the broker, and needs one of its own"
    return site.broker


def broker_killed(site: Site) -> None:
    """`kill -9` of the broker, which then starts again on what it left."""
    broker = _own(site)
    site.instance("one").serving(PARTITIONS)
    site.load(1_200 * site.intensity)
    for _ in range(site.rounds(1)):
        time.sleep(site.rng.uniform(0.3, 1.5))
        broker.kill()
        time.sleep(site.rng.uniform(0.0, 2.0))
        broker.start()


def broker_suspended(site: Site) -> None:
    """The broker hangs for longer than sessions, requests and transactions last."""
    broker, lasting = _own(site), site.settings
    longest = max(lasting.session_seconds, lasting.request_seconds, lasting.transaction_seconds)
    site.instance("one").serving(PARTITIONS)
    site.load(1_000)
    for _ in range(site.rounds(1)):
        time.sleep(site.rng.uniform(0.3, 1.0))
        broker.suspend()
        time.sleep(longest + 2)
        broker.resume()
