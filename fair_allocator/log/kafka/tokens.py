"""Tokens of the mechanism OAUTHBEARER: where they come from, and when they are replaced.

All connections of a driver share one token. A new one is fetched before the old one expires. If
that fails, the old one is used for as long as it is valid.
"""

import logging
import ssl
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka.driver import Unreachable
from fair_allocator.log.kafka.settings import OAuth

logger = logging.getLogger(__name__)

DUE_AFTER: Final = 0.7
"""A token is replaced after this part of its lifetime.

Both clients ask for a new token a little later: librdkafka after 0.8 of the lifetime, kafka-python
after 0.85.
"""

ENDPOINT_SECONDS: Final = 5.0
"""How long the token endpoint may take. Meanwhile a client sends no heartbeat to its group."""

RETRY_SECONDS: Final = 5.0
"""After the endpoint failed, how long to use the valid token before the next attempt."""

_YEARS: Final = 10 * 365 * 86_400.0
"""No token is valid for so long. If an expiry is further away, it must be in milliseconds."""

_REFUSALS: Final = (400, 401, 403)


class Token(NamedTuple):
    """A token, and when it expires, in seconds since 1970 by the clock of this machine."""

    text: str
    expires_at: float


class Tokens:
    """Keeps the current token; safe to call from any thread."""

    def __init__(self, fetch: Callable[[], Token], wall: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._wall = wall
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._due_at = 0.0

    def current(self) -> Token:
        """Return a valid token; fetch a new one if it is time to replace it.

        Raises
        ------
        Unreachable
            If there is no valid token, and fetching a new one fails.
        """
        with self._lock:
            now, token = self._wall(), self._token
            if token is not None and now < self._due_at:
                return token
            try:
                self._token = fresh = self._fetch()
            except Unreachable as error:
                if token is None or now >= token.expires_at:
                    raise
                left = token.expires_at - now
                logger.warning("%s; the last token is valid for another %.0f s", error, left)
                self._due_at = now + RETRY_SECONDS
                return token
            self._due_at = now + DUE_AFTER * (fresh.expires_at - now)
            return fresh


def tokens_of(oauth: OAuth) -> Tokens:
    """Return the tokens, from the operator's own function or from the token endpoint.

    Raises
    ------
    ConfigurationError
        If the function or the file of authorities cannot be loaded.
    """
    if oauth.token_source:
        return Tokens(_of_function(oauth.token_source))
    return Tokens(_of_endpoint(oauth))


def _of_function(source: str) -> Callable[[], Token]:
    """Return a function that fetches tokens by calling "module:function"."""
    where = f"kafka.oauth_token_source {source!r}"
    module, _, name = source.partition(":")
    try:
        sign: Callable[[], Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{where} cannot be loaded: {error}") from error

    def fetch() -> Token:
        try:
            found = sign()
        except Exception as error:
            raise Unreachable(f"{where} failed: {type(error).__name__}: {error}") from error
        match found:
            case (str() as text, int() | float() as expires_at) if text:
                if expires_at > time.time() + _YEARS:
                    raise ConfigurationError(
                        f"{where} says that its token expires at {expires_at:.0f}: it must return "
                        "seconds since 1970, not milliseconds"
                    )
                return Token(text, float(expires_at))
        raise ConfigurationError(f"{where} must return the token, and when it expires")

    return fetch


def _of_endpoint(oauth: OAuth) -> Callable[[], Token]:
    """Return a function that fetches tokens by OAuth 2 "client credentials" (RFC 6749, 4.4)."""
    import httpx  # imported here, because it takes long to load and is rarely needed

    try:
        trusted = ssl.create_default_context(cafile=oauth.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"kafka.oauth_ca_file {oauth.ca_file}: {error}") from error
    # RFC 6749, 2.3.1: id and secret are encoded, so that a colon in them does no harm.
    login = httpx.BasicAuth(quote_plus(oauth.client_id), quote_plus(oauth.client_secret))
    asked = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    endpoint = f"the token endpoint {oauth.token_url}"

    def fetch() -> Token:
        began = time.time()
        try:
            answer = httpx.post(
                oauth.token_url, data=asked, auth=login, timeout=ENDPOINT_SECONDS, verify=trusted
            )
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"{endpoint} cannot be reached: {why}") from error
        try:
            found = answer.json()
        except ValueError:
            found = None
        found = found if isinstance(found, dict) else {}
        if answer.status_code in _REFUSALS:
            why = ": ".join(
                str(found[key]) for key in ("error", "error_description") if key in found
            )
            raise Unreachable(
                f"{endpoint} refuses client {oauth.client_id!r} ({answer.status_code} {why}): "
                "check kafka.oauth_client_id, kafka.oauth_client_secret and kafka.oauth_scope"
            )
        match found:
            case {"access_token": str() as text, "expires_in": int() | float() as life} if text:
                return Token(text, began + life)
        raise Unreachable(
            f"{endpoint} answers {answer.status_code} without access_token and expires_in"
        )

    return fetch
