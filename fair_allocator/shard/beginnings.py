"""Read the settings of new pools, only once for all pools with the same settings."""

from collections.abc import Mapping
from typing import Any, Final

from fair_allocator.core.arms import SHARED
from fair_allocator.core.beginning import Beginning

_SETTINGS: Final = (
    *("arms", "tolerance", "rule", "seed", "remember", "requests", "bank", "caps", "max_open"),
)
"""The settings that a new pool begins with."""

_MOST: Final = 1_000
"""How many beginnings are kept."""

_KEPT: Final[dict[str, Beginning]] = {}


def beginning_of(settings: Mapping[str, Any]) -> Beginning:
    """Return the checked settings of a new pool, ready to make pools from (see `core.Beginning`).

    Small pools with equal settings share the object, because there may be many pools of one
    template.
    """
    arms, tolerance, rule, *others = chosen = [settings.get(name) for name in _SETTINGS]
    # The key is the text of the settings, because 1 and 1.0 are equal but are written differently.
    key = repr(chosen)
    beginning = _KEPT.get(key)
    if beginning is None:
        seed, remember, requests, *limits = others
        beginning = Beginning(
            *(arms, tolerance or 0, rule or "auto", seed, remember, requests or "plain"), *limits
        )
        if len(beginning.arms) <= SHARED:
            if len(_KEPT) >= _MOST:
                _KEPT.clear()
            _KEPT[key] = beginning
    return beginning
