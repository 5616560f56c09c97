"""Tell whether a reconfiguration changes anything, so that setting equal values again is cheap."""

from collections.abc import Mapping
from typing import Any

from fair_allocator.core.caps import parse_caps
from fair_allocator.core.errors import FairAllocatorError
from fair_allocator.core.figures import Figures
from fair_allocator.core.learners import make_learner, same_learner
from fair_allocator.core.presence import parse_max_open
from fair_allocator.core.quotas import parse_shares, parse_tolerance


def is_set_to(pool: Figures, settings: Mapping[str, Any]) -> bool:
    """Tell whether a pool already has these settings of `Pool.reconfigure`.

    Arms must also be in the same order. The answer is False if a setting is not valid, or if the
    learner is passed as an object.
    """
    try:
        return all(_is(pool, name, value) for name, value in settings.items())
    except FairAllocatorError:
        return False


def _is(pool: Figures, name: str, value: Any) -> bool:
    match name:
        case "arms":
            return list(parse_shares(value).items()) == list(pool.quotas.items())
        case "tolerance":
            return parse_tolerance(value) == pool.tolerance
        case "learner":
            if not isinstance(value, str | Mapping):
                return False
            return same_learner(make_learner(value), pool.learner)
        case "caps":
            return parse_caps(value, pool.quotas) == pool.caps
        case "max_open":
            return parse_max_open(value, pool.arms) == pool.configured_max_open
        case "rule" | "requests" | "bank":
            was: object = getattr(pool, name)
            return type(value) is type(was) and value == was
    return False
