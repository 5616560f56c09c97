"""Who may do what: by which name the server is called, which token is sent, which page asks."""

from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from fair_allocator.web.hosts import host_name, is_address, is_loopback
from fair_allocator.web.problem import Problem
from fair_allocator.web.tokens import Right, Token, Tokens

__all__ = ["Access", "Right"]

_OWN_PAGES: Final = ("same-origin", "none")
"""What a browser calls our own page, and an address that the user typed."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of a server.

    Attributes
    ----------
    tokens
        The tokens and their rights. Where there are none, everyone may read, everyone on this
        machine may ask if the server is for this machine alone, and nobody may control.
    hosts
        Names by which clients may call the server, in lower case; where there are none, by any.
        A server for this machine alone is called by this machine's own names besides, and any
        other by addresses: those cannot be made to lead elsewhere.
    local
        Whether the server is for this machine alone.
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
        """Return the token that gives a request the right, None if it needs none.

        Raises
        ------
        Problem
            401 without a token that is known, 403 if that is not enough.
        """
        if right is not Right.READ:
            _check_page(request)
        if not self.tokens.needed:
            self._check_free(right)
            return None
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        token = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Problem(401, "send a bearer token", headers={"WWW-Authenticate": "Bearer"})
        if right not in token.rights:
            raise Problem(
                403,
                f"this token does not have the right to {right}",
                reason="right",
                headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{right}"'},
            )
        return token

    def _check_free(self, right: Right) -> None:
        """Refuse what nobody may do without a token."""
        if right is Right.CONTROL or (right is Right.ASK and not self.local):
            raise Problem(
                403,
                f"the right to {right} needs a token, and none is configured: "
                "set observe.tokens_file",
                reason="right",
            )


def _check_page(request: Request) -> None:
    """Refuse what a page of another site lets a browser send."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Problem(403, "a page of another origin must not ask", reason="origin")
    if headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        raise Problem(403, "a page of another site must not ask", reason="origin")
