"""The listening socket. It has its own module because the server's module loads slowly."""

import socket
from typing import Final

BACKLOG: Final = 1_024
"""Connections that the kernel queues. Clients beyond that must try again after a second."""


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 means any free port.

    Raises
    ------
    OSError
        If the address cannot be used, or another process listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol (TCP), because only then asyncio sets TCP_NODELAY. Without TCP_NODELAY, the
    # second part of an answer would wait up to 40 ms until the client confirms the first part.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
