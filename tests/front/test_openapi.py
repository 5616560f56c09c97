"""The description is what is served: every route is in it, and no answer is missing from it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from fair_allocator.front.openapi import OPERATIONS, describe
from tests.front.served import SECRET, Site, serving

pytestmark = pytest.mark.slow

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

BATCHES = {operation.path for operation in OPERATIONS if operation.batch}

EXAMPLES = 20
"""Calls of each operation."""


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("api"), max_wait_seconds=0.05) as site:
        yield site


@pytest.fixture
def described() -> BaseSchema:
    refusals = {"expected-statuses": ["400", "404", "409", "413", "415", "422", "429"]}
    checks = {"checks": {"negative_data_rejection": refusals}}  # 413: the length comes first
    config = SchemathesisConfig.from_dict(checks)
    return schemathesis.openapi.from_dict(describe(0.05), config=config)


# From a fixture: the calls are made up when the test runs, and not by every worker that collects.
DESCRIBED = schemathesis.pytest.from_fixture("described").exclude(operation_id_regex="^watch")


@DESCRIBED.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_no_answer_is_a_failure_or_undocumented(
    case: schemathesis.Case[Any], shared_site: Site
) -> None:
    case.call_and_validate(
        base_url=str(shared_site.http.base_url),
        headers={"authorization": f"Bearer {SECRET}"},
        # A batch is answered, whatever is wrong with its events: each has a status of its own.
        checks=CHECKS if case.path in BATCHES else [*CHECKS, negative_data_rejection],
    )


def test_the_description_is_served_and_says_every_route(site: Site) -> None:
    served = site.http.get("openapi.json").json()
    assert served == json.loads(json.dumps(describe(60.0)))
    routes = {
        (route.path.replace(":name}", "}"), method)
        for route in site.front.routes
        if isinstance(route, Route) and route.path.startswith("/v1")
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {
        (path, method.upper()) for path, each in served["paths"].items() for method in each
    }
    assert routes == described == {(each.path, each.method) for each in OPERATIONS}


def test_every_reference_leads_somewhere() -> None:
    described = describe(60.0)
    schemas = described["components"]["schemas"]

    def references(found: Any) -> Iterator[str]:
        if isinstance(found, dict):
            if "$ref" in found:
                yield found["$ref"]
            for each in found.values():
                yield from references(each)
        elif isinstance(found, list):
            for each in found:
                yield from references(each)

    named = {name.rpartition("/")[2] for name in references(described)}
    assert named <= schemas.keys()
    assert len(named) > 10
