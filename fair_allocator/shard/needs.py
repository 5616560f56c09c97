"""What a request needs from an arm: an expression over the tags of arms.

    needs   = any
    any     = all { "|" all }
    all     = one { "&" one }
    one     = "!" one | "(" any ")" | tag
    tag     = one or more letters, digits, "_", ".", ":" or "-"

``french & !trainee`` is met by arms with the tag `french` and without the tag `trainee`. An
expression has at most 1,000 characters, 64 tags and 16 levels of brackets and "!".
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

from fair_allocator.core.errors import InvalidRequest, shown

MOST_CHARACTERS: Final = 1_000
MOST_TAGS: Final = 64
MOST_LEVELS: Final = 16

Test = Callable[[Collection[str]], bool]
"""A function that tells whether an arm with some tags meets an expression."""

_TOKEN: Final = re.compile(r"\s*(?:([\w.:-]+)|([&|!()]))")


@lru_cache(maxsize=1_000)
def parse_needs(text: str) -> Test:
    """Return the test for an expression.

    >>> test = parse_needs("french & !(trainee | away)")
    >>> test({"french"}), test({"french", "trainee"}), test(())
    (True, False, False)

    Raises
    ------
    InvalidRequest
        If the text is not a valid expression, or is too long or too deep.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidRequest(f"needs: at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    reader = _Reader(text)
    test = reader.any(0)
    if reader.next:
        raise InvalidRequest(f"needs: {shown(text)} has {reader.next!r} after its end")
    return test


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tags = 0
        self.next = ""
        """The next token; empty at the end."""
        self._advance()

    def _advance(self) -> None:
        rest = self._text[self._at :]
        if not rest.strip():
            self.next = ""
            return
        found = _TOKEN.match(rest)
        if found is None:
            raise InvalidRequest(
                f"needs: {shown(self._text)} has {rest.strip()[0]!r}, which is neither a tag nor "
                "one of & | ! ( )"
            )
        self._at += found.end()
        self.next = found[1] or found[2]

    def any(self, level: int) -> Test:
        tests = [self._all(level)]
        while self.next == "|":
            self._advance()
            tests.append(self._all(level))
        return tests[0] if len(tests) == 1 else lambda tags: any(test(tags) for test in tests)

    def _all(self, level: int) -> Test:
        tests = [self._one(level)]
        while self.next == "&":
            self._advance()
            tests.append(self._one(level))
        return tests[0] if len(tests) == 1 else lambda tags: all(test(tags) for test in tests)

    def _one(self, level: int) -> Test:
        word = self.next
        if word in ("!", "("):
            if level == MOST_LEVELS:
                raise InvalidRequest(f"needs: more than {MOST_LEVELS} levels of ! and brackets")
            self._advance()
            if word == "!":
                inner = self._one(level + 1)
                return lambda tags: not inner(tags)
            inner = self.any(level + 1)
            if self.next != ")":
                raise InvalidRequest(f"needs: a bracket of {shown(self._text)} is not closed")
            self._advance()
            return inner
        if not word or word in "&|)":
            missing = word or "its end"
            raise InvalidRequest(f"needs: {shown(self._text)} must have a tag before {missing}")
        self._tags += 1
        if self._tags > MOST_TAGS:
            raise InvalidRequest(f"needs: more than {MOST_TAGS} tags")
        self._advance()
        return lambda tags: word in tags
