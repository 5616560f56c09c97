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
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from fair_allocator.core.errors import InvalidRequest, shown

MOST_CHARACTERS: Final = 1_000
MOST_TAGS: Final = 64
MOST_LEVELS: Final = 16

Tags = frozenset[str]

_NO_TAGS: Final[Tags] = frozenset()

Test = Callable[[Collection[str]], bool]
"""A function that tells whether an arm with some tags meets an expression."""

_TOKEN: Final = re.compile(r"\s*(?:([\w.:-]+)|([&|!()]))")


@lru_cache(maxsize=1_000)
def parse_needs(text: str) -> tuple[Test, Tags]:
    """Return the test for an expression, and the tags that it names.

    >>> test, named = parse_needs("french & !(trainee | away)")
    >>> test({"french"}), test({"french", "trainee"}), test(())
    (True, False, False)
    >>> sorted(named)
    ['away', 'french', 'trainee']

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
    return test, frozenset(reader.tags)


def who_meets(needs: str, arms: Sequence[str], tags: Mapping[str, Tags]) -> list[str]:
    """Return the arms whose tags meet an expression, in their order.

    Only the tags that the expression names matter. So the test runs once for each combination of
    these tags, and not for each arm.

    >>> who_meets("french & !away", ["ann", "bob"], {"ann": frozenset({"french"})})
    ['ann']
    """
    test, named = parse_needs(needs)
    verdicts: dict[Tags, bool] = {}
    met = []
    for arm in arms:
        carried = tags.get(arm, _NO_TAGS) & named
        verdict = verdicts.get(carried)
        if verdict is None:
            verdict = verdicts[carried] = test(carried)
        if verdict:
            met.append(arm)
    return met


class Remembered:
    """Caches which arms met the latest expressions, for all pools. When it is full, it forgets all.

    So clients that send ever new expressions cannot make it take more than `most` bytes.
    """

    def __init__(self, most: int) -> None:
        self.taken = 0
        """About how many bytes the cache takes."""
        self._most = most
        self._met: dict[tuple[object, str], Any] = {}

    def get(self, tagging: object, needs: str) -> Any:
        """Return what was put, or None if it is forgotten.

        `tagging` identifies the tags of a pool.
        """
        return self._met.get((tagging, needs))

    def put(self, tagging: object, needs: str, met: Any, count: int) -> None:
        """Remember the value `met`, which has `count` names."""
        size = 400 + 4 * len(needs) + 8 * count
        if self.taken + size > self._most:
            self._met.clear()
            self.taken = 0
        self._met[tagging, needs] = met
        self.taken += size


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.tags: list[str] = []
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
        self.tags.append(word)
        if len(self.tags) > MOST_TAGS:
            raise InvalidRequest(f"needs: more than {MOST_TAGS} tags")
        self._advance()
        return lambda tags: word in tags
