"""Tests that share something costly stay together on one worker of pytest-xdist."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_is_part_of_the_name_by_which_tests_are_spread(
    request: pytest.FixtureRequest,
) -> None:
    """Where it is not, each worker builds the wheel and the image for itself, in silence."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")
