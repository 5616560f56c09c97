"""Read new records on Kafka as they come, with a consumer that is in no group."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Final

from fair_allocator.errors import LogUnavailable
from fair_allocator.log.base import Follower
from fair_allocator.log.kafka.driver import Driver, Edge, PositionGone
from fair_allocator.log.kafka.reading import gone, held, reaching
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.records import Place, Record

QUIET_SECONDS: Final = 5.0
"""After this time without a record, the follower checks that the cluster still answers."""


class KafkaFollower(Follower):
    """A `Follower` of topics on Kafka, with connections of its own."""

    def __init__(
        self, driver: Driver, settings: KafkaSettings, positions: Mapping[Place, int]
    ) -> None:
        self._settings = settings
        self._places = list(positions)
        self._closed = False
        with ExitStack() as undo:
            self._admin = driver.admin()
            undo.callback(self._admin.close)
            self._tailer = driver.tailer(positions)
            undo.callback(self._tailer.close)
            self._undo = undo.pop_all()
        self._heard = time.monotonic()

    @property
    def positions(self) -> Mapping[Place, int]:
        with reaching(self._settings):
            return {place: self._tailer.position(place) for place in self._places}

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        if self._closed:
            raise LogUnavailable("the follower was closed")
        with reaching(self._settings):
            try:
                blocks = self._tailer.poll(timeout_seconds, limit)
            except PositionGone as error:
                self._explain(error)
                raise
            if blocks:
                self._heard = time.monotonic()
            elif time.monotonic() - self._heard > QUIET_SECONDS:
                # A client does not report an outage: it only returns no records. So ask the
                # cluster.
                self._admin.offsets(self._places[:1], Edge.END)
                self._heard = time.monotonic()
        return list(chain.from_iterable(blocks))

    def _explain(self, error: PositionGone) -> None:
        """Raise an error that names the position that is gone, if the broker says which."""
        starts = self._admin.offsets(self._places, Edge.START)
        ends = self._admin.offsets(self._places, Edge.END)
        for place in self._places:
            position = self._tailer.position(place)
            if not starts[place] <= position <= ends[place]:
                why = held(place, starts[place], ends[place])
                raise gone(self._settings, place, position, why) from error

    def close(self) -> None:
        self._closed = True
        with reaching(self._settings):
            self._undo.close()
