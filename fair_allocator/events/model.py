"""What all events have in common."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

MOST_CHARACTERS: Final = 256

Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
"""A pool, an arm or a request id."""

Share = str | int | float
"""A share in [0, 1]; text keeps fractions exact: "0.2", "1/3"."""


class Event(BaseModel):
    """One JSON object on the wire; numbers and texts are not converted into each other."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)
