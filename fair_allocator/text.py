"""Convert texts: names to UTF-8 and back, names of parts, and numbers and errors in plain words.

Names come from JSON, which allows one half of a surrogate pair. Python refuses to encode such a
half in UTF-8 unless the error handler "surrogatepass" is set. So all names are converted by the
functions of this module.
"""

import re
from typing import Final, NamedTuple

_NUMBER: Final = "0|[1-9][0-9]{0,8}"
_PART: Final = re.compile(f"(.+)~({_NUMBER})of({_NUMBER})~({_NUMBER})", re.DOTALL)


def to_bytes(text: str) -> bytes:
    r"""Return a text in UTF-8.

    >>> to_bytes("\ud800")
    b'\xed\xa0\x80'
    """
    try:
        return text.encode()  # try this first, because an error handler is slow in compiled code
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Return the text of bytes that `to_bytes` made."""
    return data.decode("utf-8", "surrogatepass")


class Part(NamedTuple):
    """What the name of a part says: its pool, its number from 0 on, and the number of parts."""

    pool: str
    number: int
    parts: int


def part_in(name: str) -> Part | None:
    """Return what a pool's name says if it is the name of a part (see `log.parts`), else None.

    >>> part_in("tasks~0of4~1")
    Part(pool='tasks', number=0, parts=4)
    >>> part_in("tasks")
    """
    found = _PART.fullmatch(name)
    if found is None:
        return None
    part = Part(found[1], int(found[2]), int(found[3]))
    return part if part.number < part.parts else None


def counted(count: int, word: str) -> str:
    """Return a number with its noun, in singular or plural.

    >>> counted(1, "pool"), counted(2_000, "pool")
    ('1 pool', '2,000 pools')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def demanded(message: str) -> str:
    """Return in plain words a message of pydantic about a value that is not valid.

    >>> demanded("Input should be less than or equal to 1")
    'must be at most 1'
    """
    message = re.sub(r"^(Input|String|List|Dictionary) should", "must", message)
    message = message.replace("greater than or equal to", "at least")
    return message.replace("less than or equal to", "at most")
