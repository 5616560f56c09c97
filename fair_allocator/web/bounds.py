"""How much a client may send, how long it may take, and how many there may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a server.

    Attributes
    ----------
    connections
        Connections at the same time. If a further client connects, the server closes another
        connection (see `crowd`).
    head_bytes, head_fields
        Bytes of a request's first line and headers together, and the number of headers.
    body_bytes
        Bytes of a request's body.
    bodies_bytes
        Bytes of all bodies whose requests are not answered yet. A request that exceeds this is
        refused, and its client may ask again later.
    head_seconds
        Time from the first byte of a request, or from the connection, to the end of its head.
    body_seconds
        Time from the end of the head to the end of the body.
    send_seconds
        How long a client may leave data unread that the server has sent.
    idle_seconds
        Time between two requests of a connection. Proxies and client libraries keep an idle
        connection for less time than this. So they close it first, and never send on a connection
        that the server is closing.
    linger_bytes, linger_seconds
        How much, and for how long, a client may go on sending after the last answer (the rest of
        a refused body), so that the client can still read the answer.
    end_seconds
        Time for answers in progress when the server ends.
    """

    connections: int = 1_000
    head_bytes: int = 16_384
    head_fields: int = 100
    body_bytes: int = 1_048_576
    bodies_bytes: int = 67_108_864
    head_seconds: float = 5.0
    body_seconds: float = 20.0
    send_seconds: float = 30.0
    idle_seconds: float = 75.0
    linger_bytes: int = 16_777_216
    linger_seconds: float = 5.0
    end_seconds: float = 1.0
