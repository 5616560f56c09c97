"""The learners by name, and how a user's own learner is found."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from inspect import Parameter, signature
from typing import Any, Final

from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.learners.absent import Absent
from fair_allocator.core.learners.base import Choice, Learner, Plain
from fair_allocator.core.learners.ucb1 import UCB1

__all__ = [
    "Absent",
    "Choice",
    "Learner",
    "LearnerSpec",
    "Plain",
    "begin",
    "find_more",
    "is_built_in",
    "known_learners",
    "make_learner",
    "parameters_of",
    "revive",
    "same_learner",
    "shared_form",
    "stand_in_for",
    "stored_form",
]

LearnerSpec = str | Mapping[str, object] | Learner
"""A name, a mapping with ``name`` and the learner's parameters, or a learner."""

_elsewhere: Callable[[], Mapping[str, type[Learner]]] = dict


def find_more(finder: Callable[[], Mapping[str, type[Learner]]]) -> None:
    """Set the function that finds learners of installed packages. The core reads no files."""
    global _elsewhere
    _elsewhere = finder


def known_learners() -> dict[str, type[Learner]]:
    """Return the class of every learner by its name, except those that cannot be loaded.

    A built-in name always means the built-in learner.
    """
    others: dict[str, type[Learner]] = {}
    found = _elsewhere()
    for name in found:
        with suppress(InvalidPool):
            others[name] = found[name]
    return {**others, **_built_in()}


def is_built_in(name: object) -> bool:
    """Tell whether a learner comes with the core."""
    return name == UCB1.name or name in _built_in()


@cache
def _built_in() -> dict[str, type[Learner]]:
    """Return the learners of the core. The first call is slow, because most of them load numpy."""
    from fair_allocator.core.learners.epsilon_greedy import EpsilonGreedy
    from fair_allocator.core.learners.exp3 import EXP3
    from fair_allocator.core.learners.kl_ucb import KLUCB
    from fair_allocator.core.learners.lfg import LFG
    from fair_allocator.core.learners.t_fair_ucb import TFairUCB
    from fair_allocator.core.learners.thompson import Thompson
    from fair_allocator.core.learners.tscsf import TSCSFB
    from fair_allocator.core.learners.uniform import Uniform

    kinds = UCB1, KLUCB, Thompson, EpsilonGreedy, EXP3, Uniform, TFairUCB, LFG, TSCSFB
    return {kind.name: kind for kind in kinds}


def make_learner(spec: LearnerSpec) -> Learner:
    """Make the learner that a configuration asks for.

    >>> make_learner({"name": "ucb1"}).cost
    'O(log k)'
    """
    if isinstance(spec, Learner):
        return spec
    if not isinstance(spec, str | Mapping):
        raise InvalidPool(f"learner must be a name or a mapping with one, got {shown(spec)}")
    parameters = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = parameters.pop("name", None)
    kind: type[Learner] | None = None
    if name == UCB1.name:
        kind = UCB1  # without loading the others
    elif isinstance(name, str):
        kind = _built_in().get(name) or _elsewhere().get(name)
    if kind is None:
        known = ", ".join(sorted(known_learners()))
        raise InvalidPool(f"learner {shown(name)} is not known; choose one of {known}")
    try:
        return kind(**parameters)
    except InvalidPool:
        raise
    except TypeError as error:
        _check_names(name, kind, parameters)
        raise InvalidPool(f"learner {name!r}: {error}") from None
    except Exception as error:
        raise InvalidPool(f"learner {name!r}: its constructor failed: {error!r}") from error


def _check_names(name: object, kind: type[Learner], parameters: Mapping[str, object]) -> None:
    """Refuse parameters that the learner does not take, and say which ones it takes."""
    try:
        accepted = signature(kind).parameters.values()
    except ValueError:
        return  # Python cannot tell which parameters the constructor takes
    if any(each.kind is Parameter.VAR_KEYWORD for each in accepted):
        return
    known = [each.name for each in accepted]
    unknown = [parameter for parameter in parameters if parameter not in known]
    if unknown:
        takes = f"its parameters are {', '.join(known)}" if known else "it takes no parameters"
        raise InvalidPool(f"learner {name!r}: {shown(unknown[0])} is not a parameter; {takes}")


def parameters_of(learner: Learner) -> dict[str, object]:
    """Return the parameters that make an equal learner.

    Refuse a learner whose parameters are not valid.
    """
    try:
        parameters: object = learner.parameters()
    except Exception as error:
        raise InvalidPool(
            f"learner {type(learner).__name__}: parameters() failed: {error!r}"
        ) from error
    if not isinstance(parameters, Mapping):
        raise InvalidPool(
            f"learner {type(learner).__name__}: parameters() must return a mapping, "
            f"got {shown(parameters)}"
        )
    return dict(parameters)


def same_learner(one: Learner, other: Learner) -> bool:
    """Tell whether two learners are of one kind with equal parameters."""
    return type(one) is type(other) and parameters_of(one) == parameters_of(other)


_UCB1: Final[dict[str, object]] = {"name": UCB1.name}


def stored_form(learner: Learner) -> dict[str, object]:
    """Return the name and parameters from which a learner can be made again."""
    if isinstance(learner, Absent):
        return learner.stored
    if type(learner) is UCB1:
        return _UCB1  # shared, because most pools have it
    return {"name": learner.name, **parameters_of(learner)}


def shared_form(stored: Mapping[str, Any]) -> dict[str, object]:
    """Return an equal stored form as the one object that pools share, if there is one."""
    return _UCB1 if stored == _UCB1 else dict(stored)


def begin(learner: Learner, arms: Arms, draws: Draws) -> None:
    """Call `learner.begin`; if it raises an error, raise `InvalidPool` instead."""
    try:
        learner.begin(arms, draws)
    except InvalidPool:
        raise
    except Exception as error:
        raise InvalidPool(f"learner {type(learner).__name__}: begin failed: {error!r}") from error


def revive(
    stored: Mapping[str, Any], learned: Plain | None, arms: Arms, draws: Draws, stand_in: bool
) -> Learner:
    """Make the learner of a stored pool, from its stored form and what it had learned.

    With `stand_in`, an `Absent` takes the place of a learner that fails and is not built in.
    """
    try:
        learner = make_learner(stored)
        learner.begin(arms, draws)
        if learned is not None:
            learner.restore(learned)
        return learner
    except Exception as error:
        if not stand_in or is_built_in(stored.get("name")):
            raise
        absent = stand_in_for(stored, error, learned)
        absent.begin(arms, draws)
        return absent


def stand_in_for(spec: LearnerSpec, error: Exception, learned: Plain | None = None) -> Absent:
    """Return the stand-in for a learner that failed with `error`. It keeps the data `learned`."""
    stored = {"name": spec} if isinstance(spec, str) else spec
    if isinstance(stored, Learner):
        stored = stored_form(stored)
    return Absent(stored, learned, f"{type(error).__name__}: {error}")
