"""The listening socket, apart from the server, which takes long to load."""

import socket
from typing import Final

BACKLOG: Final = 1_024
"""Connections that the kernel keeps for us; beyond it, it lets clients try again after a second."""


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; 0 takes any port that is free.

    Raises
    ------
    OSError
        If nobody can listen there, or somebody does.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio send small pieces at once: else the second part
    # of an answer waits 40 ms for the client to confirm the first.
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
