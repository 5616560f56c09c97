"""Text helpers: names to UTF-8 and back, and numbers and errors in plain words.

Names come from JSON. There, a single half of a surrogate pair is valid. Python's UTF-8 refuses it
unless the error handler "surrogatepass" is set. So every name is converted here.
"""

import re


def to_bytes(text: str) -> bytes:
    r"""Return a text in UTF-8.

    >>> to_bytes("\ud800")
    b'\xed\xa0\x80'
    """
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Return the text of bytes that `to_bytes` made."""
    return data.decode("utf-8", "surrogatepass")


def counted(count: int, word: str) -> str:
    """Return a number with its noun, in singular or plural.

    >>> counted(1, "pool"), counted(2_000, "pool")
    ('1 pool', '2,000 pools')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def demanded(message: str) -> str:
    """Return pydantic's message about a value in plain words.

    >>> demanded("Input should be less than or equal to 1")
    'must be at most 1'
    """
    message = re.sub(r"^(Input|String|List|Dictionary) should", "must", message)
    message = message.replace("greater than or equal to", "at least")
    return message.replace("less than or equal to", "at most")
