"""Read an instance of your own from TOML. Every error names the file, the key and the value."""

import csv
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fractions import Fraction
from math import floor, isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

from fair_allocator.config.keys import dotted
from fair_allocator.core.quotas import parse_quota, parse_tolerance
from fair_allocator.errors import ConfigurationError
from fair_allocator.text import demanded

_Number = str | int | float
_Mean = Annotated[float, Field(ge=0, le=1)]
_Shape = Annotated[float, Field(gt=0, le=1e6)]
_Round = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Normal(_Section):
    """A normal distribution cut to [0, 1]; `mean` is its mean before the cut."""

    mean: float
    deviation: Annotated[float, Field(ge=1e-3, le=1e3)]

    @model_validator(mode="after")
    def _check(self) -> "Normal":
        if not -5 <= (0.5 - self.mean) / (self.deviation + 0.5) <= 5:
            raise ValueError(f"mean {self.mean} leaves hardly anything of the normal in [0, 1]")
        return self


class ScenarioArm(_Section):
    """An arm: its quota, where its rewards come from, and when it is there."""

    quota: _Number = 0
    mean: _Mean | None = None
    beta: Annotated[list[_Shape], Field(min_length=2, max_length=2)] | None = None
    normal: Normal | None = None
    replay: str | None = None
    joins: _Round = 1
    leaves: _Round | None = None
    available: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_open: _Round | None = None
    loss: _Mean | None = None

    @model_validator(mode="after")
    def _check(self) -> "ScenarioArm":
        given = [key for key in SOURCES if getattr(self, key) is not None]
        if len(given) != 1:
            named = ", ".join(given) or "none"
            raise ValueError(f"needs one of {', '.join(SOURCES)}, got {named}")
        if self.leaves is not None and self.leaves <= self.joins:
            raise ValueError(f"leaves must be after joins, got {self.leaves} and {self.joins}")
        parse_quota(self.quota, "")
        return self

    @property
    def share(self) -> Fraction:
        """The exact quota."""
        return parse_quota(self.quota, "")


SOURCES: Final = ("mean", "beta", "normal", "replay")
"""Sources of rewards: Bernoulli, Beta, a cut normal, or a log of past rewards."""


class PolicySettings(_Section):
    """A learner under a rule."""

    learner: str | dict[str, JsonValue] = "ucb1"
    rule: str = "auto"
    tolerance: _Number = 0

    @model_validator(mode="after")
    def _check(self) -> "PolicySettings":
        parse_tolerance(self.tolerance)
        return self

    @property
    def slack(self) -> int:
        """By how many whole pulls an arm may fall short."""
        return floor(parse_tolerance(self.tolerance))


class DelaySettings(_Section):
    """How late rewards come, how many are lost, and how long the pool waits for them."""

    kind: Literal["fixed", "geometric", "batch"] = "fixed"
    rounds: Annotated[int, Field(ge=0, le=10**9)] = 0
    loss: _Mean = 0.0
    timeout: _Round | None = None
    default: _Mean | None = None

    @model_validator(mode="after")
    def _check(self) -> "DelaySettings":
        if self.kind != "fixed" and self.rounds < 1:
            raise ValueError(f"rounds must be at least 1 for kind {self.kind!r}, got {self.rounds}")
        if self.default is not None and self.timeout is None:
            raise ValueError("default needs a timeout, after which it counts")
        return self


class Scenario(_Section):
    """The whole file."""

    horizon: Annotated[int, Field(ge=1, le=10**8)]
    runs: Annotated[int, Field(ge=2, le=10**6)] = 20
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    slots: Annotated[int, Field(ge=1)] = 1
    max_open: _Round | None = None
    arms: Annotated[dict[str, ScenarioArm], Field(min_length=1)]
    policies: Annotated[dict[str, PolicySettings], Field(min_length=1)]
    delay: DelaySettings = DelaySettings()

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        if all(arm.joins > 1 for arm in self.arms.values()):
            raise ValueError("arms: at least one must be there from round 1")
        lossy = [self.delay.loss, *(arm.loss or 0 for arm in self.arms.values())]
        if any(lossy) and self.delay.timeout is None:
            raise ValueError(
                "delay.timeout: is required where rewards are lost; a pool would wait for them "
                "for ever"
            )
        return self

    @property
    def plain(self) -> bool:
        """Whether every arm can take every request, and each request wants one arm."""
        arms = self.arms.values()
        limited = any(arm.available < 1 or arm.max_open is not None for arm in arms)
        return self.slots == 1 and self.max_open is None and not limited

    def limits(self, names: Iterable[str]) -> dict[str, int] | None:
        """Return how many open assignments these arms may have; None if no arm is limited."""
        found = {name: self.arms[name].max_open or self.max_open for name in names}
        return {name: most for name, most in found.items() if most is not None} or None

    def stages(self) -> Iterator[tuple[int, dict[str, Fraction]]]:
        """Yield each round in which arms come or go, with the quotas of the arms from then on."""
        turns = {1} | {arm.joins for arm in self.arms.values()}
        turns |= {arm.leaves for arm in self.arms.values() if arm.leaves is not None}
        for round in sorted(turn for turn in turns if turn <= self.horizon):
            yield (
                round,
                {
                    name: arm.share
                    for name, arm in self.arms.items()
                    if arm.joins <= round and (arm.leaves is None or round < arm.leaves)
                },
            )


def load(path: Path) -> tuple[Scenario, dict[str, list[float]]]:
    """Read a scenario, and the rewards of the arms that replay a log.

    Raises
    ------
    ConfigurationError
        If there are problems; its message has one line for each.
    """
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        scenario = Scenario.model_validate(content)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        problems = [f"{path}: {_explain(each)}" for each in error.errors(include_url=False)]
        raise ConfigurationError("\n".join(problems)) from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: is not TOML: {error}") from None
    logs: dict[str, list[float]] = {}
    for name, arm in scenario.arms.items():
        if arm.replay is not None:
            logs[name] = _rewards(path.parent / arm.replay, name, f"{path}: arms.{name}.replay")
    return scenario, logs


def _rewards(path: Path, arm: str, key: str) -> list[float]:
    rewards = observed_rewards(path).get(arm)
    if not rewards:
        raise ConfigurationError(f"{key}: {path} has no rewards of arm {arm!r}")
    return rewards


def observed_rewards(path: Path) -> dict[str, list[float]]:
    """Read a log of past rewards: CSV with the columns arm and reward, and possibly others."""
    found: dict[str, list[float]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = {"arm", "reward"} - set(reader.fieldnames or ())
            if missing:
                wanted = " and ".join(sorted(missing))
                raise ConfigurationError(f"{path}: has no column {wanted} in its first line")
            for row in reader:
                value = _reward(row["reward"])
                if value is None or not row["arm"]:
                    raise ConfigurationError(
                        f"{path}: line {reader.line_num}: needs an arm and a reward in [0, 1], "
                        f"got {row['arm']!r} and {row['reward']!r}"
                    )
                found.setdefault(row["arm"], []).append(value)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path}: is not CSV in UTF-8: {error}") from None
    return found


def _reward(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and 0 <= value <= 1 else None


_KINDS: Final = {"arms": ScenarioArm, "policies": PolicySettings, "delay": DelaySettings}


def _explain(problem: ErrorDetails) -> str:
    place = tuple(str(part) for part in problem["loc"] if part != "[key]")
    # For a union type, pydantic also names the type that did not fit. Leave it out.
    place = tuple(part for part in place if part not in ("str", "int", "float", "dict"))
    return f"{dotted(place)}: {_what(problem, place)}".removeprefix(": ")


def _what(problem: ErrorDetails, place: tuple[str, ...]) -> str:
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            kind: Any = _KINDS.get(place[0], Scenario) if len(place) > 1 else Scenario
            found = get_close_matches(place[-1], kind.model_fields, n=1)
            return f"unknown key; the closest is {found[0]}" if found else "unknown key"
        case "value_error":
            return str(problem["ctx"]["error"]).removeprefix("arm '': ")
    message = demanded(problem["msg"])
    value = problem["input"]
    shown = "a table" if isinstance(value, dict) else repr(value)
    return f"{message}, got {shown:.60}"
