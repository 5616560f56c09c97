"""The learners, by name, and how a user's own one is found."""

from collections.abc import Callable, Mapping
from importlib import import_module

from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.learners.base import Choice, Learner, Plain

__all__ = [
    "Choice",
    "Learner",
    "LearnerSpec",
    "Plain",
    "find_more",
    "known_learners",
    "make_learner",
    "same_learner",
]

LearnerSpec = str | Mapping[str, object] | Learner
"""A name, a mapping with ``name`` and the learner's parameters, or a learner."""

_BUILT_IN = {
    "ucb1": "UCB1",
    "kl-ucb": "KLUCB",
    "thompson": "Thompson",
    "epsilon-greedy": "EpsilonGreedy",
    "exp3": "EXP3",
    "uniform": "Uniform",
    "t-fair-ucb": "TFairUCB",
    "lfg": "LFG",
}
"""The class of each, in a module of its name: loaded when asked for, since numpy takes long."""

_elsewhere: Callable[[], Mapping[str, type[Learner]]] = dict


def find_more(finder: Callable[[], Mapping[str, type[Learner]]]) -> None:
    """Ask `finder` for learners beyond the built-in ones: the core itself reads no disk."""
    global _elsewhere
    _elsewhere = finder


def known_learners() -> dict[str, type[Learner]]:
    """Return every learner that can be named; a built-in name cannot be taken over."""
    return {**_elsewhere(), **{name: _built_in(name) for name in _BUILT_IN}}


def _built_in(name: str) -> type[Learner]:
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    learner: type[Learner] = getattr(module, _BUILT_IN[name])
    return learner


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
    kind = None
    if isinstance(name, str):
        kind = _built_in(name) if name in _BUILT_IN else _elsewhere().get(name)
    if kind is None:
        known = ", ".join(sorted(known_learners()))
        raise InvalidPool(f"learner {shown(name)} is not known; choose one of {known}")
    try:
        return kind(**parameters)
    except TypeError as error:
        raise InvalidPool(f"learner {name!r}: {error}") from None


def same_learner(one: Learner, other: Learner) -> bool:
    """Tell whether two learners are of one kind with equal parameters."""
    return type(one) is type(other) and one.parameters() == other.parameters()
