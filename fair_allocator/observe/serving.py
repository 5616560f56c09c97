"""From the configuration to a running server."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fair_allocator.config import Configuration, token_of
from fair_allocator.observe.health import Health
from fair_allocator.observe.observer import Observer

if TYPE_CHECKING:
    from fair_allocator.observe.exposition import Truth

logger = logging.getLogger(__name__)

HEAD_START_SECONDS: Final = 0.5
"""What the loop has to itself: threads take turns, and loading the server takes long ones."""


@contextmanager
def observed(
    configuration: Configuration, observer: Observer, truth: "Truth | None" = None
) -> Iterator[str | None]:
    """Serve metrics, health and the page while the block runs; yields the page's address.

    Where the port cannot be had there is a warning and no server: deciding matters more than
    being watched, and whoever watches will notice. `truth` has the arms' true means by pool,
    where they are known.

    Raises
    ------
    ConfigurationError
        If the token cannot be told.
    """
    # Here, since it takes longer to load than all that decides.
    from fair_allocator.observe.http import Access, Server
    from fair_allocator.observe.reporter import Reporter

    settings = configuration.observe
    access = Access(
        token_of(settings), settings.max_clients, frozenset(map(str.lower, settings.hosts))
    )
    if settings.port is None:
        yield None
        return
    service = configuration.service
    health = Health(observer, service.stuck_seconds, service.poll_seconds)
    try:
        reporter = Reporter(observer, configuration.metrics, truth)
        server = Server(settings.host, settings.port, reporter, health, access)
    except OSError as error:
        logger.warning(
            "no metrics and no page: cannot listen on %s port %d: %s; set observe.host and "
            "observe.port",
            settings.host,
            settings.port,
            error.strerror or error,
        )
        yield None
        return
    with server.running():
        logger.info("metrics and page at %s%s", server.url, "" if access.token else ", no token")
        yield server.url


@contextmanager
def observed_aside(configuration: Configuration, observer: Observer) -> Iterator[None]:
    """Do the same on a thread of its own, a little later: deciding does not wait for it.

    Raises
    ------
    ConfigurationError
        If the token cannot be told.
    """
    token_of(configuration.observe)
    if configuration.observe.port is None:
        yield
        return
    ending = threading.Event()

    def serve() -> None:
        if ending.wait(HEAD_START_SECONDS):
            return
        try:
            with observed(configuration, observer):
                ending.wait()
        except Exception:
            logger.exception("no metrics and no page; deciding goes on")

    thread = threading.Thread(target=serve, name="observing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
