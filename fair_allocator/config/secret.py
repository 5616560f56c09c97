"""Read secrets from a setting or from a file; no message shows them."""

import logging
import re
import stat
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from fair_allocator.config.settings import Configuration, ObserveSection
from fair_allocator.errors import ConfigurationError
from fair_allocator.signing import Signer

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 1_000_000
"""The longest file of a secret."""


def secret_of(name: str, value: SecretStr, file: Path | None) -> str:
    """Return the secret of the setting `name`, "" if there is none.

    Raises
    ------
    ConfigurationError
        If the secret is given twice, or its file cannot be read or is empty.
    """
    secret = value.get_secret_value()
    if file is None:
        return secret
    if secret:
        raise ConfigurationError(f"{name} and {name}_file: give one of them")
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        secret = content.decode("utf-8").strip()
        if file.stat().st_mode & stat.S_IROTH:
            logger.warning("%s_file: every user of this machine can read %s: chmod o-r", name, file)
    except (OSError, ValueError) as error:  # ValueError: no text, or a NUL in the path
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(f"{name}_file: {file} cannot be read: {reason}") from None
    if len(content) > MOST_BYTES:
        raise ConfigurationError(f"{name}_file: {file} is longer than {MOST_BYTES:,} bytes")
    if not secret:
        raise ConfigurationError(f"{name}_file: {file} is empty")
    return secret


def token_of(settings: ObserveSection) -> str:
    """Return the token that clients must send, "" if they need none.

    Raises
    ------
    ConfigurationError
        If the token cannot be read, or has characters that clients cannot send.
    """
    token = secret_of("observe.token", settings.token, settings.token_file)
    if not re.fullmatch("([!-~]([ -~]*[!-~])?)?", token):
        raise ConfigurationError(
            "observe.token: clients can send ASCII characters only, and no space at its ends; "
            "choose another"
        )
    return token


def api_signer(configuration: Configuration) -> Signer | None:
    """Return what the HTTP API signs controls with, None if it signs none.

    Raises
    ------
    ConfigurationError
        If the key cannot be used, or signatures cannot be checked.
    """
    senders, file = configuration.senders, configuration.api.control_key_file
    if senders is not None:
        senders.load()
    if file is None:
        return None
    if senders is None:
        raise ConfigurationError(
            "api.control_key_file: controls.keys lists no key, so not this one"
        )
    try:
        return senders.signer(file)
    except OSError as error:
        reason = error.strerror
        raise ConfigurationError(f"api.control_key_file: {file} cannot be read: {reason}") from None
