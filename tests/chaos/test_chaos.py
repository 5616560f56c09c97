"""The short form: every case once on either client, the main ones at least once, too.

The long form is `python -m tests.chaos`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.chaos.cases import AT_LEAST_ONCE, BROKER, CASES
from tests.chaos.site import site
from tests.support.broker.choice import private_broker
from tests.support.broker.java import JavaBroker

SEED = 1
BREAKING = {case.__name__ for case in BROKER}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    """A broker that may be broken: the cases that do so run one after the other."""
    with private_broker(tmp_path_factory.mktemp("own") / "broker") as broker:
        yield broker


def _played(client: str, names: Iterable[str], delivery: str = "exactly_once") -> Iterator[object]:
    for name in names:
        # Side by side on the shared broker; one after the other where the broker is broken.
        group = "broken broker" if name in BREAKING else f"{client} {name} {delivery}"
        yield pytest.param(
            client,
            name,
            delivery,
            id=f"{client}-{name}" + ("" if delivery == "exactly_once" else f"-{delivery}"),
            marks=pytest.mark.xdist_group(group),
        )


@pytest.mark.parametrize(
    ("client", "name", "delivery"),
    [
        *_played("kafka", CASES),
        *_played("confluent", CASES),
        *_played("kafka", AT_LEAST_ONCE, "at_least_once"),
    ],
)
def test_nothing_is_lost_and_nothing_counted_twice(
    client: str, name: str, delivery: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    own = request.getfixturevalue("own_broker") if name in BREAKING else None
    address = request.getfixturevalue("broker") if own is None else own.bootstrap
    with site(tmp_path, address, client, SEED, delivery=delivery) as played:
        played.broker = own
        CASES[name](played)
        assert played.check() > 0
