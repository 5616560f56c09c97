"""Host names and addresses: read a Host header, and recognise this machine's own names."""

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
    """Tell whether a name is an IP address. DNS cannot redirect an address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(1_000)  # called for every request
def is_loopback(name: str) -> bool:
    """Tell whether a name is localhost or a loopback address."""
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def is_local(host: str) -> bool:
    """Tell whether a server that listens on `host` can be reached from this machine only.

    Raises
    ------
    OSError
        If there is no such host.
    """
    if is_address(host) or is_loopback(host):
        return is_loopback(host)
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(is_loopback(str(address[0])) for *_, address in found)
