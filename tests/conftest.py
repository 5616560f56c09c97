"""What tests of several folders share."""

import asyncio
import gc
import warnings
from collections.abc import Iterator
from typing import Final, Literal

import pytest
from hypothesis import HealthCheck, settings

from tests.support.broker.choice import shared_broker
from tests.support.broker.evidence import (
    pytest_configure,
    pytest_runtest_makereport,
    pytest_runtest_setup,
)
from tests.support.order import place
from tests.support.pace import refresh, scaled

__all__ = ["pytest_configure", "pytest_runtest_makereport", "pytest_runtest_setup"]


TIMEOUT_SECONDS: Final = 600.0
MARKER_SECONDS: Final = 3.0
"""How long the end of a transaction may take to appear: longer than for an operator's tools."""

HEAVY: Final = {
    "asking",
    "broker",
    "browser",
    "certificate",
    "cluster",
    "composed",
    "image",
    "installed",
    "own_broker",
    "prometheus",
}
"""Fixtures that drive more than Python."""

DYING: Final = ("test_outage", "test_start", "test_remade_topics")
"""Modules besides whose tests leave brokers that are gone behind."""

PHASES: Final[tuple[Literal["setup", "call", "teardown"], ...]] = ("setup", "call", "teardown")

ON_KAFKA: Final = ("kafka", "confluent")
"""What the parameters of tests that ask for a broker only when they run begin with."""


# How long an example takes depends on what else the machine does; and all runs see the same ones.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out, keep groups together, and give a slow machine its time.

    Then order them, so that the workers take the long ones first.
    """
    for item in items:
        item.add_marker(pytest.mark.timeout(scaled(TIMEOUT_SECONDS)))
        if item.get_closest_marker("xdist_group") is None and _uses_fixture_of_module(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if _is_heavy(item):
            item.add_marker(pytest.mark.heavy)
    items.sort(key=place)


def pytest_runtest_logstart() -> None:
    """Look how slow the machine is, before a test and not within."""
    refresh()


def _uses_fixture_of_module(item: pytest.Item) -> bool:
    """Tell whether the module sets something up once: each worker that has a test of it would."""
    known = getattr(item, "_fixtureinfo", None)
    found = () if known is None else known.name2fixturedefs.values()
    return any(fixture.scope == "module" for fixtures in found for fixture in fixtures)


def _is_heavy(item: pytest.Item) -> bool:
    used = getattr(item, "fixturenames", ())
    if "chaos" in item.path.parts or not HEAVY.isdisjoint(used):
        return True
    given = getattr(item, "callspec", None)
    chosen = "log_factory" in used or "site" in used
    return chosen and given is not None and given.id.startswith(ON_KAFKA)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The address of a Kafka broker, one for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "broker"
    with shared_broker(folder) as address:
        yield address


@pytest.fixture(autouse=True)
def _ends_of_transactions() -> Iterator[None]:
    """Let readers wait long enough for the end of a commit that has returned.

    The broker writes it to the partitions after it has answered. A reader that stops waiting does
    not see the commit, which a test would take for a loss.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fair_allocator.log.kafka.reading.MARKER_SECONDS", scaled(MARKER_SECONDS))
        yield


@pytest.fixture(autouse=True)
def _no_loop_of_the_browser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the event loop that Playwright leaves running in a worker, except from its own tests."""
    running = asyncio._get_running_loop()
    if running is None or "browser" in request.fixturenames:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(autouse=True)
def _sockets_of_dead_brokers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect the sockets that kafka-python leaves at brokers that died, before another test does.

    The warning of such a socket would fail whichever test happens to run when it is collected.
    What was logged goes first: it has the errors of failed connections, whose frames hold sockets,
    and pytest would keep it until the teardown is over.
    """
    if request.node.path.parent.name not in ("chaos", "cluster") and (
        request.node.path.stem not in DYING
    ):
        yield
        return
    caplog: pytest.LogCaptureFixture = request.getfixturevalue("caplog")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for phase in PHASES:
            caplog.get_records(phase).clear()
        gc.collect()
