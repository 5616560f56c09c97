"""Turns views into figures, `/metrics` and JSON, each once for all clients."""

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
from fair_allocator.observe.figures import work_out
from fair_allocator.observe.history import History
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.pacing import Pacing
from fair_allocator.observe.view import View

logger = logging.getLogger(__name__)

MOST_ANSWERS: Final = 200
"""How many answers of a digest to keep. Without new digests, they must not fill the memory."""

LONGEST_SECONDS: Final = 10.0
"""The highest age of an expensive digest. An alert checks this age."""

EVENT_SECONDS: Final = 0.9
"""How old a digest may be for a page that gets one every second."""

FRESH_SECONDS: Final = 0.25
"""A digest younger than this is used again, even if many clients ask."""

MOST_OF_THE_TIME: Final = 0.02
"""The part of a processor that digests may take: an expensive digest is renewed less often."""


class Reporter(Collector):
    """Reports on one observer, to any number of threads.

    As a collector it yields the metrics of the stream. The metrics of the pools are text already.

    How often there is a new digest depends on the cost of digests, never on the clients' queries.
    So no client can delay the news for the others. The code that answers a client tells `pacing`
    what the answer cost, and `pacing` says when the client may have another. `more` has the metrics
    of other parts, which `/metrics` shows too.
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
        self._made = float("-inf")
        self._spent = 0.0
        self._answers_of: Digest | None = None
        self._answers: dict[Hashable, bytes] = {}
        """Parts of answers from one digest, by what was asked."""
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
        self._observer.close()

    def digest(self, max_age: float = FRESH_SECONDS) -> Digest:
        """Return a digest at most `max_age` seconds old, if its cost and the loop allow that."""
        with self._one_at_a_time:
            seldom = min(self._spent / MOST_OF_THE_TIME, LONGEST_SECONDS)
            if self._monotonic() - self._made > max(max_age, seldom):
                view = self._observer.view()
                self._spent = self._observer.spent
                with self._spending():
                    self._renew(view)
                self._made = self._monotonic()
            return self._digest

    @contextmanager
    def _spending(self) -> Iterator[None]:
        """Count the processor time of the block, because it is taken from the loop."""
        began = time.thread_time()
        yield
        self._spent += time.thread_time() - began

    def _renew(self, view: View) -> None:
        known = self._digest.figures
        if view.number == self._digest.view.number:
            return
        changed = [
            pool
            for key, pool in view.pools.items()
            if (old := known.get(key)) is None or old.of is not pool
        ]
        fresh = {figures.of.key: figures for figures in work_out(changed)}
        figures = {key: fresh.get(key) or known[key] for key in view.pools}
        self._digest = Digest.of(view, figures)
        self.history.add(view.time, figures, self._digest.broken)

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
        """Return a pool with its past; null if there is no pool of that name."""
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
                # The rest of the scrape reports the error (collector_errors_total).
                self._errors += 1
                logger.exception("the pools' metrics could not be written")
                pools = b""
            return pools + encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        errors = self._errors + self._observer.errors
        digest = self._digest
        yield from families.process_families(bool(self._observer.restoring_now), errors)
        yield from families.families(digest.view, len(digest.broken), self._hidden)

    def describe(self) -> Iterable[Metric]:
        return ()
