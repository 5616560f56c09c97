"""Make the HTTP server from the configuration: page, metrics, health and API on one port.

A `Part` is a set of routes. `serving` serves several parts with the same rights, limits and
certificate. `observed` serves the page, metrics and health of the service, together with further
parts.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from fair_allocator.config import Configuration, ObserveSection, token_of
from fair_allocator.errors import ConfigurationError
from fair_allocator.observe.health import Health
from fair_allocator.observe.observer import Observer

if TYPE_CHECKING:
    from fair_allocator.observe.exposition import Truth
    from fair_allocator.simulate.advice import Price
    from fair_allocator.web.access import Access
    from fair_allocator.web.application import Part
    from fair_allocator.web.tls import Tls

    MakeParts = Callable[[Access], Sequence[Part]]
    """A function that makes the parts to serve. Its argument has the tokens and their rights."""

# The modules of `web` take longer to load than the modules that decide. So functions import them.

logger = logging.getLogger(__name__)

PRICE_RUNS: Final = 20
"""How many runs to simulate for the price of a quota, as many as for the paper's figures."""

HEAD_START_SECONDS: Final = 0.5
"""How long the service's loop runs alone at a start.

Loading the server during this time would slow down the loop.
"""


def access_of(settings: ObserveSection) -> "Access":
    """Return the tokens and their rights.

    Raises
    ------
    ConfigurationError
        If a token cannot be read, or the file of tokens is not valid.
    """
    from fair_allocator.web.access import Access
    from fair_allocator.web.hosts import is_local
    from fair_allocator.web.tokens import Right, Token, Tokens

    token = token_of(settings)
    given = [Token.of("observe.token", [Right.READ], token)] if token else []
    try:
        local = is_local(settings.host)
    except OSError:
        local = False  # the server does not listen at all
    return Access(
        Tokens(given, settings.tokens_file), frozenset(map(str.lower, settings.hosts)), local
    )


def check_files(settings: ObserveSection) -> None:
    """Raise `ConfigurationError` if token, tokens or certificate cannot be used."""
    from fair_allocator.web.tokens import Tokens

    token_of(settings)
    Tokens(file=settings.tokens_file)
    tls_of(settings)


def tls_of(settings: ObserveSection) -> "Tls | None":
    """Return the certificate to serve with; None if none is configured.

    Raises
    ------
    ConfigurationError
        If its files cannot be used.
    """
    from fair_allocator.web.tls import Tls

    if settings.tls_certificate_file is None or settings.tls_key_file is None:
        return None
    return Tls(settings.tls_certificate_file, settings.tls_key_file)


def listening(settings: ObserveSection) -> socket.socket | None:
    """Listen on the configured port.

    Return None if no port is configured, or if the port is taken and not required.

    Raises
    ------
    ConfigurationError
        If the port is required and cannot be opened. Otherwise a health check would reach another
        program, or none.
    """
    from fair_allocator.web.listening import listen

    if settings.port is None:
        return None
    try:
        return listen(settings.host, settings.port)
    except OSError as error:
        why = f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}"
    if settings.port_required:
        raise ConfigurationError(
            f"{why}; set observe.host and observe.port, or observe.port_required = false to serve "
            "without page, metrics and health"
        )
    logger.warning("no page, metrics and health: %s", why)
    return None


@contextmanager
def serving(
    configuration: Configuration, make_parts: "MakeParts", listener: socket.socket | None = None
) -> Iterator[str | None]:
    """Serve parts on the configured port while the block runs; yield the address.

    `listener` is the socket, if the caller already listens. The address is None if there is no
    socket (see `listening`).

    Raises
    ------
    ConfigurationError
        If tokens or certificate cannot be used, or the port cannot be opened.
    """
    from fair_allocator.web.application import Application
    from fair_allocator.web.bounds import Bounds
    from fair_allocator.web.server import Server

    settings = configuration.observe
    access, tls = access_of(settings), tls_of(settings)
    listener = listener or listening(settings)
    if listener is None:
        yield None
        return
    bounds = Bounds(connections=settings.max_connections)
    with (
        closing(listener),
        Server(
            listener, Application(make_parts(access), access, bounds), bounds, tls
        ).running() as server,
    ):
        guarded = "" if access.tokens.needed else ", no token"
        logger.info("metrics and page at %s%s", server.url, guarded)
        yield server.url


def _price(
    means: Mapping[str, float], quotas: Mapping[str, Fraction], rounds: int
) -> "Sequence[Price]":
    """Price quotas as `simulate advise` does."""
    from fair_allocator.simulate import advice, spread

    return advice.price(means, quotas, rounds, PRICE_RUNS, 0, spread.play)


@contextmanager
def observed(
    configuration: Configuration,
    observer: Observer,
    truth: "Truth | None" = None,
    make_more: "MakeParts | None" = None,
    listener: socket.socket | None = None,
) -> Iterator[str | None]:
    """Serve metrics, health and the page while the block runs; yield the page's address.

    `truth` has the arms' true means by pool, if they are known. `make_more` makes parts whose
    routes come before those of the page. `listener` has the same meaning as in `serving`.

    Raises
    ------
    ConfigurationError
        If tokens or certificate cannot be used, or the port cannot be opened.
    """
    from fair_allocator.observe.reporter import Reporter
    from fair_allocator.observe.routes import Pages

    service = configuration.service
    health = Health(observer, service.stuck_seconds, service.poll_seconds)

    def make_parts(access: "Access") -> "list[Part]":
        more = make_more(access) if make_more else ()
        collectors = [collector for part in more for collector in part.collectors]
        reporter = Reporter(observer, configuration.metrics, truth, collectors)
        # The page sends its controls through the API, so it has none without the API.
        pricing = _price if configuration.observe.page_controls and more else None
        pages = Pages(reporter, health, access, configuration.observe.max_clients, pricing)
        return [*more, pages.part]

    with serving(configuration, make_parts, listener) as url:
        yield url


@contextmanager
def observed_aside(
    configuration: Configuration, observer: Observer, make_more: "MakeParts | None" = None
) -> Iterator[None]:
    """Do the same as `observed`, but start on a separate thread, so that decisions need not wait.

    The port is opened at once. A client that connects before the server is ready waits for it.

    Raises
    ------
    ConfigurationError
        If tokens or certificate cannot be used, or the port cannot be opened.
    """
    check_files(configuration.observe)
    listener = listening(configuration.observe)
    if listener is None:
        yield
        return
    ending = threading.Event()

    def serve() -> None:
        try:
            with closing(listener):
                if ending.wait(HEAD_START_SECONDS):
                    return
                with observed(configuration, observer, make_more=make_more, listener=listener):
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
