"""Decide whether a request is allowed: by its Host header, its token and the page that sent it."""

from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from fair_allocator.web.hosts import host_name, is_address, is_loopback
from fair_allocator.web.problem import Problem
from fair_allocator.web.tokens import Right, Token, Tokens

__all__ = ["Access", "Right"]

_OWN_PAGES: Final = ("same-origin", "none")
"""The values of the header Sec-Fetch-Site for our own page, and for an address that the user
typed."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules of a server.

    Attributes
    ----------
    tokens
        The tokens and their rights. If there are no tokens at all, every client may read, no client
        may send controls, and clients may send requests only if the server is `local`.
    hosts
        Names that clients may use for the server, in lower case. If empty, a server that is not
        `local` accepts any name. Loopback names are always accepted. A server that is not `local`
        also accepts IP addresses: unlike a name, an address always leads to the same machine.
    local
        Whether only this machine can reach the server.
    """

    tokens: Tokens = field(default_factory=Tokens)
    hosts: frozenset[str] = frozenset()
    local: bool = True

    def answers_to(self, host: str) -> bool:
        """Tell whether a request with this Host header is meant for this server."""
        name = host_name(host)
        if name in self.hosts or is_loopback(name):
            return True
        return not self.local and (not self.hosts or is_address(name))

    def require(self, request: Request, right: Right) -> Token | None:
        """Return the token that gives a request the right, None if the request needs no token.

        Raises
        ------
        Problem
            401 without a known token, 403 if the token does not have the right.
        """
        if right is not Right.READ:
            _check_page(request)
        if not self.tokens.needed:
            self._check_free(right)
            return None
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        token = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Problem(
                401,
                "send a bearer token",
                reason="right",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if right not in token.rights:
            raise Problem(
                403,
                f"this token does not have the right to {right}",
                reason="right",
                headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{right}"'},
            )
        return token

    def _check_free(self, right: Right) -> None:
        """Refuse the right if no client has it without a token."""
        if right is Right.CONTROL or (right is Right.ASK and not self.local):
            raise Problem(
                403,
                f"the right to {right} needs a token, and none is configured: "
                "set observe.tokens_file",
                reason="right",
            )


def _check_page(request: Request) -> None:
    """Refuse a request that a page of another site makes a browser send."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Problem(403, "a page of another origin may not use this server", reason="origin")
    if headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        raise Problem(403, "a page of another site may not use this server", reason="origin")
