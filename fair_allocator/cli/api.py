"""The HTTP API for the commands that serve it."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from fair_allocator.config import Configuration, api_signer
from fair_allocator.log.intake import Intake
from fair_allocator.signing import Signer
from fair_allocator.wiring import open_client

if TYPE_CHECKING:
    from fair_allocator.serving import MakeParts
    from fair_allocator.web.access import Access
    from fair_allocator.web.application import Part


def make_api(configuration: Configuration, intake: Intake | None = None) -> "MakeParts | None":
    """Return a function that makes the API of `run`, or None if the API is off.

    `intake` is the intake of the service's log (see `log.intake`); None if the log has none.

    Raises
    ------
    ConfigurationError
        If the API cannot sign controls as configured.
    """
    enabled = configuration.api.enabled
    if enabled is None:
        enabled = configuration.log.kind == "sqlite"
    return partial(_parts, configuration, intake, api_signer(configuration)) if enabled else None


def _parts(
    configuration: Configuration, intake: Intake | None, signer: Signer | None, access: "Access"
) -> "Sequence[Part]":
    # Imported only here, because the API takes longer to load than the rest of the service.
    from fair_allocator.front.front import Front

    client = partial(open_client, configuration)
    return [Front(configuration, client, access, intake, signer).part]


def make_gateway(configuration: Configuration) -> "MakeParts":
    """Return a function that makes the parts of a gateway.

    Raises
    ------
    ConfigurationError
        If the API cannot sign controls as configured.
    """
    signer = api_signer(configuration)

    def parts(access: "Access") -> "Sequence[Part]":
        from fair_allocator.front.front import Front
        from fair_allocator.front.gateway import GatewayPages

        client = partial(open_client, configuration)
        front = Front(configuration, client, access, signer=signer)
        return [front.part, GatewayPages(front, access).part]

    return parts
