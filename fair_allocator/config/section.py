"""The parts that all sections of the configuration are made of."""

from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def none(value: object) -> object:
    """Read "none" as no value: TOML has no null."""
    return None if value == "none" else value


Count = Annotated[int, Field(ge=1)]
Span = Annotated[float, Field(gt=0)]
Reward = Annotated[float, Field(ge=0, le=1)]
CountOrNone = Annotated[Count | None, BeforeValidator(none)]
SpanOrNone = Annotated[Span | None, BeforeValidator(none)]
RewardOrNone = Annotated[Reward | None, BeforeValidator(none)]

CONFIG: Final = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Section(BaseModel):
    """A section of the configuration."""

    model_config = CONFIG
