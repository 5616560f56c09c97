"""Tests that share something costly stay together on one worker of pytest-xdist."""

import pytest


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
