"""Tests that share something costly stay together on one worker, and the long ones go first."""

from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from tests.support.order import LONG, WAITING, place

ROOT: Final = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def costly() -> None:
    """Something that each worker with a test of this module would have to set up."""


@pytest.mark.xdist_group("groups")
def test_a_group_is_part_of_the_name_by_which_tests_are_spread(
    request: pytest.FixtureRequest,
) -> None:
    """Where it is not, each worker builds the wheel and the image for itself, in silence."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")


@pytest.mark.usefixtures("costly")
def test_what_a_module_sets_up_once_makes_it_a_group(request: pytest.FixtureRequest) -> None:
    (mark,) = request.node.iter_markers("xdist_group")
    assert mark.args == ("test_groups",)


def test_other_tests_are_spread(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("xdist_group") is None


def test_long_groups_that_are_to_go_first_exist() -> None:
    modules = {path.stem: path.read_text("utf-8") for path in ROOT.glob("*/test_*.py")}
    marked = "\n".join(modules.values())
    assert [name for name in LONG if name not in modules and f'"{name}"' not in marked] == []


def test_long_groups_go_first_and_what_only_computes_goes_last() -> None:
    places = [
        *(_place("unit", group) for group in LONG),
        *(_place(folder, None) for folder in WAITING),
        _place("unit", "some group"),
    ]
    assert places == sorted(set(places))
    assert _place("property", None) == _place("unit", "some group")


def _place(folder: str, group: str | None) -> int:
    """Return the place of a test of that folder and group."""
    marks = {} if group is None else {"xdist_group": pytest.mark.xdist_group(group).mark}
    item = SimpleNamespace(path=ROOT / folder / "test_x.py", get_closest_marker=marks.get)
    return place(cast(pytest.Item, item))
