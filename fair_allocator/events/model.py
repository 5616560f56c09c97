"""What all events have in common."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

MOST_CHARACTERS: Final = 256

Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
"""The name of a pool or an arm, or the id of a request."""

Share = str | int | float
"""A share in [0, 1]. A text such as "0.2" or "1/3" is exact."""


class Event(BaseModel):
    """One event: a JSON object. Types are strict: the text "1" is not accepted as the number 1."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)
