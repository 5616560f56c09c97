"""The stand-in for a learner whose package is missing or broken."""

from collections.abc import Mapping
from typing import Any

from fair_allocator.core.learners.base import Learner, Plain


class Absent(Learner):
    """A learner that cannot choose. It keeps the stored data of the learner that it replaces.

    A pool uses it if the package of its own learner is missing or broken. The pool then decides
    without a learner, and counts a fault each time. The learner's name, parameters and state are
    stored unchanged. When the package works again, the next start brings the learner back.
    """

    def __init__(self, stored: Mapping[str, Any], learned: Plain | None, reason: str) -> None:
        self.stored = dict(stored)
        self.learned = learned
        self.reason = reason

    def choose(self, round: int, among: Any = None) -> Any:  # noqa: ARG002
        """Raise an error. The pool then decides without a learner, and counts a fault."""
        raise RuntimeError(
            f"learner {self.stored.get('name')!r} could not be made again: {self.reason}"
        )
