"""The network between the services and one broker fails; brokers still reach each other."""

import time
from collections.abc import Callable
from typing import Final

from tests.chaos.site import Site
from tests.support.broker.cluster import JavaCluster
from tests.support.link import Link

SLOW_SECONDS: Final = 0.3


def link_cut(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """Connections to a journal's leader are dropped, and new ones too."""
    return _broken(cluster, site, lasting, Link.cut)


def link_slow(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """What comes from or goes to a journal's leader takes longer; it is never away."""
    _broken(cluster, site, lasting, lambda link: link.slow_down(SLOW_SECONDS))
    return 0.0


def replies_lost(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """A journal's leader does what it is asked, and its answers are lost."""
    return _broken(cluster, site, lasting, Link.drop_replies)


def link_hangs(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """Connections to a journal's leader stay, and nothing passes."""
    return _broken(cluster, site, lasting, Link.hang)


FAULTS: Final = (link_cut, link_slow, replies_lost, link_hangs)


def _broken(
    cluster: JavaCluster, site: Site, lasting: float, broken: Callable[[Link], None]
) -> float:
    link = cluster.links[cluster.leader(site.settings.topics["journal"], 0)]
    broken(link)
    time.sleep(lasting)
    link.mend()
    return lasting
