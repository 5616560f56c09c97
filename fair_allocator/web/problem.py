"""Errors in the format problem+json (RFC 9457). They never repeat what the client sent."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

CONTENT_TYPE: Final = "application/problem+json"


class Problem(Exception):
    """The reason why a request is not served, raised by the code that refuses it.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        What is wrong with this request, in a sentence; "" if the status says enough.
    title
        What kind of problem it is; by default the HTTP status in words.
    headers
        Headers of the answer, besides its type.
    members
        Further members of the JSON object, such as ``field`` and ``reason``.
    """

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        title: str = "",
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> None:
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members
        super().__init__(detail or self.title)

    def content(self) -> dict[str, object]:
        """Return the object that the client gets."""
        known: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
        }
        if self.detail:
            known["detail"] = self.detail
        return known | self.members

    def body(self) -> bytes:
        """Return the object as JSON."""
        return json.dumps(self.content(), separators=(",", ":")).encode() + b"\n"

    def response(self) -> Response:
        """Return the answer."""
        headers = {"content-type": CONTENT_TYPE, **self.headers}
        return Response(self.body(), self.status, headers)
