"""Names and addresses: what a Host header says, and what leads to this machine alone."""

import ipaddress
import socket
from functools import lru_cache


def host_name(header: str) -> str:
    """Return the name in a Host header, without the port.

    >>> host_name("Allocator.Example:9464"), host_name("[::1]:80")
    ('allocator.example', '::1')
    """
    if "]" in header:
        return header.rpartition("]")[0].removeprefix("[").lower()
    return header.partition(":")[0].lower()


def is_address(name: str) -> bool:
    """Tell whether a name is an address, which cannot be made to lead elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(1_000)  # asked for every request
def is_loopback(name: str) -> bool:
    """Tell whether a name is one of this machine's own names for itself."""
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def is_local(host: str) -> bool:
    """Tell whether who listens on `host` is reached from this machine alone.

    Raises
    ------
    OSError
        If there is no such host.
    """
    if is_address(host) or is_loopback(host):
        return is_loopback(host)
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(is_loopback(str(address[0])) for *_, address in found)
