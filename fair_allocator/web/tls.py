"""TLS with certificate files that are loaded again when they change."""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fair_allocator.errors import ConfigurationError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often to check whether the files have changed."""


class Tls:
    """A certificate with its chain and its key, both in PEM.

    Open connections keep their certificate. If the files were changed and cannot be loaded, or if
    only one of the two was changed so far, an error is logged and the old certificate stays in use.

    Raises
    ------
    ConfigurationError
        If the files cannot be used.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._certificate, self._key = certificate, key
        self._monotonic = monotonic
        self._looked = monotonic()
        self._versions = self._current_versions()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        now = self._monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            versions = self._current_versions()
            if versions != self._versions:
                self._versions = versions
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = self._load()
        except ConfigurationError as error:
            logger.error("%s; the certificate loaded before is still used", error)
        else:
            logger.info("loaded the certificate of %s again", self._certificate)

    def _current_versions(self) -> list[tuple[int, ...] | None]:
        versions: list[tuple[int, ...] | None] = []
        for file in (self._certificate, self._key):
            try:
                known = file.stat()
            except OSError:
                versions.append(None)
            else:
                versions.append((known.st_ino, known.st_size, known.st_mtime_ns))
        return versions

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without this, OpenSSL would ask for a password on the terminal and block the service.
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigurationError(
                f"tls_certificate_file {self._certificate} and tls_key_file {self._key} "
                f"cannot be used: {reason}"
            ) from None
        return context
