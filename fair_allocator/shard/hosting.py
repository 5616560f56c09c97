"""The settings of a pool that only its shard needs, such as timeouts and rates."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

LONGEST_SECONDS: Final = 1e12
"""A longer timeout is shortened to this, which is so long that it never ends in practice."""

NULLABLE: Final = frozenset(
    (
        *("reward_timeout", "default_reward", "wait_timeout", "bank", "caps", "max_open", "tags"),
        *("rate", "burst"),
    )
)
"""Settings for which None has a meaning of its own: it removes the setting."""

_SET: Final = (
    *("reward_timeout", "default_reward", "when_busy", "wait_timeout", "reassign"),
    *("rate", "burst"),
)
"""The settings that a control or the configuration file can set."""

_TIMES: Final = ("reward_timeout", "wait_timeout")


@dataclass(frozen=True, slots=True)
class Hosting:
    """The settings with which a shard serves a pool; times are in milliseconds of record time.

    Attributes
    ----------
    reward_timeout
        How long to wait for a reward; None means without a limit.
    default_reward
        The reward that is counted at the timeout; None means that nothing is counted.
    on_demand
        Whether the pool was made from the template, and no control or file has configured it since.
    fingerprint
        For a pool on demand: the fingerprint of the template that last made or changed it.
    paused
        Whether the pool is paused: it then decides no requests.
    when_busy
        "wait" or "refuse": what happens to a request that no arm can take now.
    wait_timeout
        How long a request may wait; None means without a limit.
    reassign
        Whether a request is decided again when its arm declines or gives no reward in time.
    rate, burst
        How many requests are taken in a second, and at once. A `rate` of None means any number. A
        `burst` of None means as many as `rate`.
    """

    reward_timeout: int | None = None
    default_reward: float | None = None
    on_demand: bool = False
    fingerprint: str = ""
    paused: bool = False
    when_busy: str = "wait"
    wait_timeout: int | None = None
    reassign: bool = False
    rate: int | None = None
    burst: int | None = None

    def changed(self, settings: Mapping[str, Any]) -> "Hosting":
        """Return these settings, changed by a control or by the configuration file."""
        changes = {name: settings[name] for name in _SET if name in settings}
        for name in _TIMES:
            if (seconds := changes.get(name)) is not None:
                # Use at least 1 ms: a timeout of 0 would be due at once, and again in a restore.
                changes[name] = max(1, round(min(seconds, LONGEST_SECONDS) * 1000))
        return replace(self, **changes)

    def state(self) -> dict[str, Any]:
        """Return the settings as plain data.

        Settings that release 0.1 did not have are left out if they are not set.
        """
        state: dict[str, Any] = {
            "reward_timeout": self.reward_timeout,
            "default_reward": self.default_reward,
            "on_demand": self.on_demand,
            "fingerprint": self.fingerprint,
            "paused": self.paused,
        }
        newer = {
            "when_busy": self.when_busy if self.when_busy != "wait" else None,
            "wait_timeout": self.wait_timeout,
            "reassign": self.reassign or None,
            "rate": self.rate,
            "burst": self.burst,
        }
        return state | {name: value for name, value in newer.items() if value is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Hosting":
        """Return the settings from the plain data that `state` returned."""
        return cls(**{field: state[field] for field in cls.__dataclass_fields__ if field in state})


_SHARED: Final[dict[str, Hosting]] = {}
_MOST_SHARED: Final = 1_000


def shared(hosting: Hosting) -> Hosting:
    """Return an equal object that all pools with these settings share."""
    if len(_SHARED) >= _MOST_SHARED:
        _SHARED.clear()
    # The key is the text of the settings, because 1 and 1.0 are equal but are written differently.
    return _SHARED.setdefault(repr(hosting), hosting)
