"""How much a client may send, how long it may take, and how many there may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a server.

    Attributes
    ----------
    connections
        Connections at the same time; one more makes room for itself, see `crowd`.
    head_bytes, head_fields
        Of a request's first line and headers together, and the number of headers.
    body_bytes
        Of a request's body.
    head_seconds
        From the first byte of a request, or from connecting, to the end of its head.
    body_seconds
        From there to the end of its body.
    send_seconds
        For which a client may leave untaken what it was sent.
    idle_seconds
        Between two requests of a connection. Longer than proxies and client libraries keep a
        connection, so that they close it first and never send into one that is being closed.
    linger_bytes, linger_seconds
        How much, and for how long, a client may go on sending after the last answer, so that it
        gets to read it: the rest of a body that was refused.
    end_seconds
        For answers under way when the server ends.
    """

    connections: int = 1_000
    head_bytes: int = 16_384
    head_fields: int = 100
    body_bytes: int = 1_048_576
    head_seconds: float = 5.0
    body_seconds: float = 20.0
    send_seconds: float = 30.0
    idle_seconds: float = 75.0
    linger_bytes: int = 16_777_216
    linger_seconds: float = 5.0
    end_seconds: float = 1.0
