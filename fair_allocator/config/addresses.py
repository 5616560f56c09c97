"""Checks of settings that say where something is: brokers, an endpoint, a function."""

import re
from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Hosts that a secret may be sent to without TLS."""


def brokers(value: str) -> str:
    """Accept brokers as host:port with commas between them."""
    for broker in value.split(","):
        host, _, port = broker.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"must be host:port with commas between them, got {broker.strip()!r}")
    return value


def endpoint(value: str) -> str:
    """Accept the address of an endpoint that receives a secret: with TLS, or on this machine."""
    parts = urlsplit(value)
    if parts.username or parts.password:
        raise ValueError("must have no user name and no password in it")
    if value and (parts.scheme not in ("https", "http") or not parts.hostname):
        raise ValueError(f"must be https://host/path, got {value!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError(f"must be https, since the secret goes there, got {value!r}")
    return value


def function(value: str) -> str:
    """Accept a function as module:function."""
    if value and not re.fullmatch(r"\w+(\.\w+)*:\w+", value):
        raise ValueError(f"must be module:function, got {value!r}")
    return value
