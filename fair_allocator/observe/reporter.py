"""Turn views into figures, `/metrics` and JSON, each only once for all clients.

A *view* is a copy of the loop's pools. A *digest* is a view with the figures computed from it.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from fair_allocator.config import MetricsSection
from fair_allocator.observe import api, families
from fair_allocator.observe.controls import ArmStanding
from fair_allocator.observe.digest import Digest
from fair_allocator.observe.exposition import PoolsText, Truth
from fair_allocator.observe.figures import PoolFigures, work_out
from fair_allocator.observe.history import History
from fair_allocator.observe.observer import VIEW_SECONDS, Observer
from fair_allocator.observe.pacing import Pacing
from fair_allocator.observe.renewing import Renewing
from fair_allocator.observe.view import Key, View

logger = logging.getLogger(__name__)

MOST_ANSWERS: Final = 200
"""How many answers of a digest to keep. Without new digests, they must not fill the memory."""

LONGEST_SECONDS: Final = 10.0
"""The highest age of an expensive digest. An alert checks this age."""

EVENT_SECONDS: Final = 0.9
"""How old a digest may be for a page that gets one every second."""

AT_ONCE: Final = 2_000
"""How many pools are computed together: many, to share work, but so few that they fit in the
caches."""

FRESH_SECONDS: Final = 0.25
"""A digest younger than this is used again, even if many clients ask."""

MOST_OF_THE_TIME: Final = 0.02
"""The part of a processor that digests may take. So an expensive digest is renewed less often."""

COSTLY_SECONDS: Final = 0.1
"""If a digest takes longer than this, the next ones are made before clients ask for them."""


class Reporter(Collector):
    """Reports what one observer sees. Any number of threads may ask.

    As a Prometheus collector it yields the metrics of the loop. The metrics of the pools are made
    as text.

    How often a new digest is made depends on the time that a digest takes, and never on how many
    clients ask. So no client can delay the news for the others. Only the first client waits for an
    expensive digest. After that, a thread renews it, and clients get the latest one.

    The code that answers a client tells `pacing` how much time the answer took, and `pacing` says
    when the client may get another answer. `more` has the metrics of other parts, which `/metrics`
    shows too.
    """

    def __init__(
        self,
        observer: Observer,
        caps: MetricsSection | None = None,
        truth: Truth | None = None,
        more: Iterable[Collector] = (),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = History()
        self.pacing = Pacing(monotonic)
        self._observer = observer
        self._monotonic = monotonic
        self._text = PoolsText(caps or MetricsSection(), truth or {})
        self._digest = Digest(View(), {}, [])
        self._renewing = Renewing(self._renew_beside, monotonic)
        self._made = float("-inf")
        self._spent = 0.0
        self._answers_of: Digest | None = None
        self._answers: dict[Hashable, bytes] = {}
        """Parts of answers from the current digest, by what was asked."""
        self._texts: dict[bool, tuple[Digest, bytes]] = {}
        self._errors = 0
        self._hidden = 0
        self._one_at_a_time = threading.RLock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        for collector in more:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def close(self) -> None:
        """End every wait for the loop."""
        self._renewing.close()
        self._observer.close()

    def digest(self, max_age: float = FRESH_SECONDS) -> Digest:
        """Return a digest at most `max_age` seconds old, if its cost and the loop allow that."""
        with self._one_at_a_time:
            is_old = self._monotonic() - self._made > max(max_age, self._pause())
            if not self._renewing.goes_on() and is_old:
                self._take(*self._renewed())
                if self._spent > COSTLY_SECONDS:
                    self._renewing.begin(self._pause())
            return self._digest

    def _pause(self) -> float:
        """Return for how many seconds, at least, a digest is used.

        This depends on how long a digest takes.
        """
        return min(self._spent / MOST_OF_THE_TIME, LONGEST_SECONDS)

    def _renew_beside(self) -> float | None:
        """Renew an expensive digest; return the pause until the next time.

        Return None if digests are cheap now, so that clients can wait for them.
        """
        try:
            renewed = self._renewed(LONGEST_SECONDS)
        except Exception:
            self._errors += 1
            logger.exception("the pools' figures could not be worked out")
            return LONGEST_SECONDS
        with self._one_at_a_time:
            self._take(*renewed)
            return self._pause() if self._spent > COSTLY_SECONDS else None

    @contextmanager
    def _spending(self) -> Iterator[None]:
        """Count the processor time of the block, because it is taken from the loop."""
        began = time.thread_time()
        yield
        self._spent += time.thread_time() - began

    def _renewed(self, patience: float = VIEW_SECONDS) -> tuple[Digest, float]:
        """Return a digest of the loop's pools as they are now, and the seconds that it took.

        If the loop makes no view within `patience` seconds, return the last digest.
        """
        before, view = self._digest, self._observer.view(patience)
        began, known = time.thread_time(), before.figures
        if view.number == before.view.number:
            return before, self._observer.spent
        changed = [
            pool
            for key, pool in view.pools.items()
            if (old := known.get(key)) is None or old.of is not pool
        ]
        fresh: dict[Key, PoolFigures] = {}
        for at in range(0, len(changed), AT_ONCE):
            some = work_out(changed[at : at + AT_ONCE])
            fresh.update({figures.of.key: figures for figures in some})
        figures = {key: fresh.get(key) or known[key] for key in view.pools}
        digest = Digest.of(view, figures, before.worst, fresh.values())
        return digest, self._observer.spent + time.thread_time() - began

    def _take(self, digest: Digest, spent: float) -> None:
        """Use this digest for all answers from now on."""
        self._made, self._spent = self._monotonic(), spent
        if digest is not self._digest:
            self._digest = digest
            self.history.add(digest.view.time, digest.figures, digest.broken)

    # -- the page -----------------------------------------------------------------------------

    def event(self, client: str, wish: api.ClientWish, past: bool) -> tuple[int, bytes]:
        """Return the number of the view and the next event for a watching page.

        With `past` the event has the pool's whole history, else only the newest point.
        """
        with self._answering(client, EVENT_SECONDS) as digest:
            event = self._pools(digest, wish)
            name, partition = wish.pool, wish.partition
            if name is None and (worst := digest.worst) is not None:
                partition, name = worst.of.key
            if name is not None:
                if (figures := api.find(digest, name, partition)) is not None:
                    self._observer.watch(figures.of.key)
                pool = self._pool(digest, name, partition, wish, past)
                event = event[:-1] + b',"pool":' + pool + b"}"
            return digest.view.number, event

    def pools(self, client: str, wish: api.ClientWish) -> bytes:
        """Return the overview and a page of pools."""
        with self._answering(client, FRESH_SECONDS) as digest:
            return self._pools(digest, wish)

    def pool(self, client: str, name: str, wish: api.ClientWish) -> bytes:
        """Return a pool with its past, as JSON; null if there is no pool of that name."""
        with self._answering(client, FRESH_SECONDS) as digest:
            return self._pool(digest, name, wish.partition, wish, past=True)

    def arms(self, name: str, partition: int | None) -> dict[str, ArmStanding] | None:
        """Return quota and mean of each arm of a pool; None if there is no pool of that name."""
        with self._one_at_a_time:
            figures = api.find(self.digest(), name, partition)
        if figures is None:
            return None
        terms = figures.of.terms
        return {
            arm: ArmStanding(Fraction(terms.slope[at], terms.unit[at]), figures.mean(at))
            for at, arm in enumerate(terms.names)
        }

    def _pools(self, digest: Digest, wish: api.ClientWish) -> bytes:
        overview = self._once("overview", lambda: api.overview(digest))
        pools = self._once(wish.of_pools, lambda: api.pool_page(digest, wish))
        return b'{"overview":' + overview + b',"pools":' + pools + b"}"

    def _pool(
        self, digest: Digest, name: str, partition: int | None, wish: api.ClientWish, past: bool
    ) -> bytes:
        def content() -> api.Json | None:
            figures = api.find(digest, name, partition)
            if figures is None:
                return None
            points = self.history.of(figures.of.key)
            return api.pool(figures, wish, points if past else points[-1:])

        return self._once((name, partition, wish.of_arms, past), content)

    @contextmanager
    def _answering(self, client: str, max_age: float) -> Iterator[Digest]:
        """Yield a digest to answer from, and charge the time of the block to the client."""
        with self._one_at_a_time:
            digest = self.digest(max_age)
            if self._answers_of is not digest or len(self._answers) >= MOST_ANSWERS:
                self._answers_of, self._answers = digest, {}
            began = time.thread_time()
            yield digest
            self.pacing.spent(client, time.thread_time() - began)

    def _once(self, key: Hashable, content: Callable[[], api.Json | None]) -> bytes:
        """Return a part of an answer; make it only once for a digest."""
        if key not in self._answers:
            self._answers[key] = api.encoded(content())
        return self._answers[key]

    # -- metrics ------------------------------------------------------------------------------

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the text of `/metrics` and its content type, according to the Accept header."""
        encode, content_type = choose_encoder(accept)
        openmetrics = content_type.startswith("application/openmetrics-text")
        with self._one_at_a_time:
            try:
                digest = self.digest()
                if (known := self._texts.get(openmetrics)) is None or known[0] is not digest:
                    with self._spending():
                        text, self._hidden = self._text.write(
                            digest.figures,
                            by_partition=digest.view.by_partition,
                            openmetrics=openmetrics,
                        )
                    known = self._texts[openmetrics] = digest, text.encode("utf-8", "replace")
                pools = known[1]
            except Exception:
                # Leave out the pools. The rest of the scrape reports the error
                # (collector_errors_total).
                self._errors += 1
                logger.exception("the pools' metrics could not be written")
                pools = b""
            return pools + encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        errors = self._errors + self._observer.errors
        digest = self._digest
        yield from families.process_families(bool(self._observer.restoring_now), errors)
        age = self._observer.age(digest.view)
        yield from families.families(digest.view, len(digest.broken), self._hidden, age)

    def describe(self) -> Iterable[Metric]:
        return ()
