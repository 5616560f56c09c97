"""What the page needs to change a pool: whether the client may, and what other quotas would cost.

The page sends the changes through the HTTP API, like any other client.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.quotas import parse_shares
from fair_allocator.observe import api
from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import read_json
from fair_allocator.web.problem import Problem

ROUNDS: Final = 10_000
"""Over how many rounds quotas are priced."""

MOST_WAITING: Final = 8
"""The most clients that wait for a price. One takes about half a second of a processor."""

MOST_ARMS: Final = 100
"""How many arms a pool may have for its quotas to be priced (see `Pricing`).

With more arms, one price would take seconds of processor time.
"""


class PricedArm(Protocol):
    """What one arm's quota costs."""

    @property
    def arm(self) -> str:
        """The arm's name."""

    @property
    def price(self) -> float:
        """How much reward is lost because of the quota, over all rounds."""

    @property
    def se(self) -> float:
        """The standard error of the price."""


Pricing = Callable[[Mapping[str, float], Mapping[str, Fraction], int], Sequence[PricedArm]]
"""Returns the price of each arm's quota, given all means and quotas, over so many rounds."""


class ArmStanding(NamedTuple):
    """An arm's quota, and its mean reward or None if it has no reward yet."""

    quota: Fraction
    mean: float | None


FindArms = Callable[[str, int | None], dict[str, ArmStanding] | None]
"""Returns the arms of a pool by name; None if there is no such pool."""


class Controls:
    """The HTTP paths for the page's controls. If `pricing` is None, the page has no controls."""

    def __init__(self, pricing: Pricing | None, find: FindArms, access: Access) -> None:
        self._pricing = pricing
        self._find = find
        self._access = access
        self._prices = ThreadPoolExecutor(1, "prices")
        self._waiting = 0

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        allowed = Route("/api/v1/controls", self._allowed)
        if self._pricing is None:
            return [allowed]
        prices = Route("/api/v1/pools/{pool:name}/prices", self._price, methods=["POST"])
        return [allowed, prices]

    def close(self) -> None:
        """End after the current price."""
        self._prices.shutdown(wait=False, cancel_futures=True)

    async def _allowed(self, request: Request) -> Response:
        """Tell whether this client may change pools on the page."""
        self._access.require(request, Right.READ)
        return _json({"allowed": self._pricing is not None and self._may_control(request)})

    def _may_control(self, request: Request) -> bool:
        try:
            self._access.require(request, Right.CONTROL)
        except Problem:
            return False
        return True

    async def _price(self, request: Request) -> Response:
        """Return what each arm's quota would cost, if some quotas were changed."""
        self._access.require(request, Right.CONTROL)
        changed = _quotas_in(await read_json(request))
        if self._waiting >= MOST_WAITING:
            raise Problem(429, "too many clients ask for prices", headers={"Retry-After": "1"})
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            name = request.path_params["pool"]
            content = await loop.run_in_executor(self._prices, self._content, name, changed)
        finally:
            self._waiting -= 1
        return _json(content)

    def _content(self, pool: str, changed: Mapping[str, Any]) -> api.Json:
        arms = self._find(pool, None)
        if arms is None:
            raise Problem(404)
        if len(arms) > MOST_ARMS:
            raise Problem(422, f"only pools of at most {MOST_ARMS} arms are priced")
        if strangers := changed.keys() - arms.keys():
            raise Problem(422, f"there is no arm {min(strangers)!r}", field="quotas")
        try:
            quotas = parse_shares({arm: changed.get(arm, each.quota) for arm, each in arms.items()})
        except InvalidPool as error:
            raise Problem(422, str(error), field="quotas") from None
        means = {arm: each.mean for arm, each in arms.items() if each.mean is not None}
        if len(means) < len(arms):
            return {"rounds": ROUNDS, "prices": None}
        assert self._pricing is not None  # noqa: S101  (without it, there is no route to here)
        priced = self._pricing(means, quotas, ROUNDS)
        return {
            "rounds": ROUNDS,
            "prices": [{"arm": each.arm, "price": each.price, "se": each.se} for each in priced],
        }


def _quotas_in(body: bytes) -> dict[str, Any]:
    try:
        content = from_json(body)
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    quotas = content.get("quotas") if isinstance(content, dict) else None
    if not isinstance(quotas, dict):
        raise Problem(422, 'send {"quotas": {arm: quota}}', field="quotas")
    return quotas


def _json(content: api.Json) -> Response:
    return Response(api.encoded(content), headers={"content-type": "application/json"})
