"""Call everything a pool offers with everything a user might hand in, and print what came of it.

Run as a script, once for each form of the package; the form is the one Python finds. One line of
JSON for each call: the call, then its result or its error, then a digest of the pool's state.

To add a case, add a line to a table. `?` stands for each of VALUES in turn. Every call gets a pool
of its own, `pool`, with an open request "open", an answered one "done" and rounds behind it.
"""

import copy
import hashlib
import inspect
import json
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

import fair_allocator
from fair_allocator import Learner, Pool
from fair_allocator.core import FORM
from fair_allocator.core.requests import Request

ARMS: Final[dict[str, Any]] = {"ann": "0.3", "bob": "1/4", "cyd": 0}

VALUES: Final = (
    # Python's own
    "None", "True", "False", "0", "1", "-1", "3", "64", "10**30", "0.0", "-0.0", "0.5", "1.0",
    "1.5", "-0.1", "float('nan')", "float('inf')", "Fraction(1, 2)", "Decimal('0.5')",
    "Decimal('NaN')", "Size.THREE", "0.5j", "''", "'ann'", "'bob'", "'dan'", "'done'", "'open'",
    "'0.5'", "'1/3'", "'auto'", "'earliest-deadline'", "'any'", "'plain'", "'ucb1'", "'uniform'",
    "b'ann'", "Text('ann')",
    # numpy's
    "np.float16(0.5)", "np.float32(0.1)", "np.float64(0.5)", "np.float64('nan')", "np.float32(2)",
    "np.longdouble(0.5)", "np.int8(1)", "np.int32(-1)", "np.int64(3)", "np.uint64(1)",
    "np.argmax([0, 1])", "np.bool_(True)", "np.array(0.5)", "np.array(1)", "np.array([0.5])",
    "np.array(['ann'])", "np.str_('ann')", "np.ma.masked", "np.timedelta64(1, 's')",
    # collections, and what is none of all this
    "[]", "['ann']", "('ann', 'bob')", "{'bob'}", "frozenset({'cyd'})", "iter(['ann'])",
    "['ann', 'ann']", "['dan']", "[None]", "{'ann': 0.5}", "{'ann': np.float32(0.1), 'bob': 0}",
    "[('ann', np.float64(0.5)), ('dan', np.int64(0))]", "{'name': 'uniform'}",
    "{'name': 'epsilon-greedy', 'epsilon': np.float32(0.1)}", "range(2)", "object()", "int", "...",
    "repr", "Fixed()", "Fixed",
)  # fmt: skip

CALLS: Final = (
    "Pool(?)",
    "Pool({'ann': ?, 'bob': 0})",
    "Pool([(?, 0.5)])",
    "Pool(ARMS, ?)",
    "Pool(ARMS, learner=?)",
    "Pool(ARMS, learner={'name': 'epsilon-greedy', 'epsilon': ?})",
    "Pool(ARMS, learner={'name': 'exp3', 'gamma': ?})",
    "Pool(ARMS, rule=?)",
    "Pool(ARMS, seed=?, learner='uniform')",
    "Pool(ARMS, name=?)",
    "Pool(ARMS, remember=?)",
    "Pool(ARMS, on_epoch=?)",
    "pool.assign(?)",
    "pool.recall(?)",
    "pool.reward(?, 0.5)",
    "pool.reward('open', ?)",
    "pool.reward('done', ?)",
    "pool.reward('nobody', ?)",
    "pool.expire(?)",
    "pool.reconfigure(?)",
    "pool.reconfigure({'ann': ?, 'dan': 0})",
    "pool.reconfigure(tolerance=?)",
    "pool.reconfigure(learner=?)",
    "pool.reconfigure(rule=?)",
    "Pool.from_state(?)",
    "Pool.from_state({**pool.state(), 'version': ?})",
    "Pool.from_state(pool.state(), learner=?)",
    "Pool.from_state(pool.state(), on_epoch=?)",
)
"""Each with every one of VALUES."""

SELECTION: Final = (
    "Pool(ARMS, requests=?)",
    "Pool(ARMS, bank=?)",
    "Pool(ARMS, caps=?)",
    "Pool(ARMS, caps={'ann': ?})",
    "Pool(ARMS, max_open=?)",
    "Pool(ARMS, max_open={'ann': ?})",
    "any_pool().assign('new', ?)",
    "any_pool().assign('new', ['ann', ?])",
    "any_pool().assign('new', slots=?)",
    "any_pool().assign('new', ['ann', 'cyd'], ?)",
    "any_pool().assign('new', AllBut(?))",
    "pool.assign('new', ?)",
    "pool.assign('new', slots=?)",
    "several('new').reward('new', ?, 'ann')",
    "several('new').reward('new', 0.5, ?)",
    "pool.reward('open', 0.5, ?)",
    "pool.reward('open', 0.5, arm=?)",
    "several('new').expire('new', ?)",
    "pool.expire('open', ?)",
    "pool.decline(?)",
    "pool.decline('open', ?)",
    "several('new').decline('new', ?)",
    "pool.sleep(?)",
    "pool.wake(?)",
    "asleep('ann').wake(?)",
    "asleep('ann').sleep(?)",
    "asleep('ann').assign('new', ?)",
    "pool.reconfigure(requests=?)",
    "pool.reconfigure(bank=?)",
    "pool.reconfigure(caps=?)",
    "pool.reconfigure(caps={'ann': ?})",
    "pool.reconfigure(max_open=?)",
    "pool.reconfigure(max_open={'ann': ?})",
)
"""The same for requests that name arms and slots, and for what goes with them."""

SINGLE: Final = (
    "Pool()",
    "Pool(ARMS, speed=3)",
    "Pool(ARMS, 0, 'ucb1', 'auto', 0, 'name')",
    "pool.assign()",
    "pool.assign(request_id='new')",
    "pool.assign('open')",
    "pool.reward('open')",
    "pool.reward(request_id='open', value=np.float32(0.25))",
    "pool.propose(Request('new'))",
    "pool.count(pool.propose(Request('new')))",
    "[several('new').decline('new', 'ann', hold=True), several('new').give_up('new')]",
    "[pool.whose('open', None), pool.whose('nobody', None), several('new').whose('new', 'ann')]",
    "[pool.is_open('open'), pool.is_open('done'), pool.waiting_of('open')]",
    "[pool.latest(0), pool.latest(1), pool.latest(9)]",
    "[any_pool().among(['ann'], ()), any_pool().among(None, ['cyd']), pool.proposed_among()]",
    "[asleep('ann').moved(), asleep('ann').forget_moves(), pool.moved()]",
    "pool.follow_epoch(1)",
    "pool.follow('new', 'ann', 1, 'fairness', 1.0)",
    "pool.follow('new', 'cyd', 1, 'learner', None)",
    "pool.follow('new', 'dan', 1, 'learner', None)",
    "[pool.expire('open'), pool.expire('open'), pool.reward('open', 1)]",
    "[pool.reward('open', np.int64(1)), pool.means, pool.observed]",
    "[type(x) for x in (pool.seed, pool.rounds, pool.tolerance, pool.columns.total[0])]",
    "type(Pool(ARMS, seed=np.int64(3)).seed)",
    "json.dumps(Pool(ARMS, tolerance=np.float32(0.5), seed=np.int64(3)).state())",
    "json.dumps(Pool(ARMS, remember=np.int8(9)).state())",
    "[pool.assign('a'), pool.assign('a'), pool.assign('a') == pool.recall('a')]",
    "sorted(map(str, [pool.assign('a').reason, pool.recall('a').propensity, pool.recall('b')]))",
    "pickle.loads(pickle.dumps(pool.recall('open'))) == pool.recall('open')",
    "copy.deepcopy(pool.recall('open'))",
    "hash(pool.recall('open')) == hash(copy.copy(pool.recall('open')))",
    "pool.recall('open') == 'open'",
    "pool.recall('open').arm_name",
    "[bool(outcome) for outcome in RewardOutcome]",
    "Learner()",
    "Learner(3)",
    "Learner().choose(1)",
    "Learner().parameters()",
    "Learner().state()",
    "Learner().restore({})",
    "Learner.name + Learner.cost",
    "Fixed().name + Fixed().cost",
    "Learner().present(0, True)",
)

CHOICES: Final = (
    "1", "(1, 0.5)", "(1, None)", "np.argmax([0, 1])", "(np.argmax([0, 1]), 0.5)", "np.int8(1)",
    "(np.int64(1), np.float32(0.5))", "(1, np.float64(0.5))", "(1, 1)", "(1, Fraction(1, 2))",
    "np.array(1)", "[1, 0.5]", "np.array([1, 1])", "(1,)", "(1, 0.5, 2)", "()", "True",
    "(True, 0.5)", "-1", "3", "99", "10**30", "np.int64(-1)", "np.int64(99)", "1.0",
    "np.float64(1)", "'1'", "'bob'", "None", "(None, None)", "(1, 'x')", "(1, float('nan'))",
    "(1, np.float64('nan'))", "(1, 2.0)", "(1, -0.1)", "(1, True)", "(1, 0.5j)", "object()",
    "1 / 0", "[][1]", "{}['x']", "len(None)", "self.arms.names[99]", "self.no_such_thing",
    "super().choose(round)", "sys.exit('no')",
    "iter([1, 0.5])", "round % 3", "self.draws.below(3, round, 0)", "(i for i in (1, None))",
)  # fmt: skip
"""What a learner's `choose` returns, as an expression."""

HOOKS: Final = (
    "def choose(self): return 1",
    "def choose(self, round, among): return 1",
    "def choose(self, round, among=None): return (among and next(iter(among)) or 0, 0.5)",
    "def choose(self, round, *, among=None): return 1",
    "def choose(self, *anything): return len(anything)",
    "def choose_several(self, round, among, count): return list(among)[:count]",
    "def choose_several(self, round, among, count): return np.flatnonzero(among.mask())[:count]",
    "def choose_several(self, round, among, count): return [0, 0]",
    "def choose_several(self, round, among, count): return []",
    "def choose_several(self, round, among, count): return None",
    "def assigned(self, arm, assignment): self.seen += [type(arm).__name__, assignment.arm]",
    "def observed(self, arm, assignment, reward): self.seen += [type(arm), type(reward), reward]",
    "def expired(self, arm, assignment): self.seen += [arm, assignment.request_id]",
    "def assigned(self, arm, assignment): raise RuntimeError(arm)",
    "def observed(self, arm, assignment, reward): raise RuntimeError(arm, reward)",
    "def expired(self, arm, assignment): raise RuntimeError(arm)",
    "def assigned(self, arm): pass",
    "def begin(self, arms, draws): raise RuntimeError",
    "def begin(self, arms, draws): self.arms, self.draws = arms, draws",
    "def reshape(self, arms, kept): self.seen.append(list(kept)); self.arms = arms",
    "def reshape(self, arms, kept): raise RuntimeError",
    "def parameters(self): return {'seen': 1}",
    "def parameters(self): return None",
    "def state(self): return {'seen': list(map(str, self.seen))}",
    "def state(self): raise RuntimeError",
    "def present(self, arm, here): self.seen += [arm, here]",
    "name = 'mine'; cost = 'O(1)'",
)
"""What else a learner's class may have; `choose` returns 1 where nothing else is said."""


STEPS: Final = (
    "pool",
    "[pool.assign(str(number)).plain() for number in range(8)]",
    "[pool.reward(str(number), 0.5) for number in range(4)]",
    "pool.expire('5')",
    "pool.reconfigure({'ann': 0.1, 'dan': 0})",
    "[pool.assign(f'after{number}').plain() for number in range(4)]",
    "learner.seen",
    "pool.faults",
    "Pool.from_state(pool.state(), learner=learner).rounds",
    "digest(pool)",
)
"""What is asked, in turn, of a pool with such a learner."""


class Size(IntEnum):
    THREE = 3


class Text(str):
    __slots__ = ()


class Fixed(Learner):
    """A learner as a new user writes it."""

    def choose(self, round: int, among: Any = None) -> Any:
        return 1


# -- the pools that the calls work on ------------------------------------------------------------


def made(**options: Any) -> Pool:
    """Return a pool in the middle of things."""
    pool = Pool(ARMS, seed=3, tolerance=1, name="parity", **options)
    for number in range(12):
        pool.assign(f"old{number}")
        if number % 3:
            pool.reward(f"old{number}", number / 12)
    pool.assign("done")
    pool.reward("done", 0.25)
    pool.assign("open")
    return pool


def any_pool() -> Any:
    return made(requests="any")


def several(request_id: str) -> Any:
    """Return a pool that has given every arm to one request."""
    pool = any_pool()
    pool.assign(request_id, slots=3)
    return pool


def asleep(arm: str) -> Any:
    pool = any_pool()
    pool.sleep(arm)
    return pool


# -- what came of it -----------------------------------------------------------------------------

_BINDING: Final = re.compile(r"\(\) (missing|takes|got) |invalid keyword argument")


def outcome(call: Callable[[], Any]) -> list[str]:
    """Return the result of a call, or its error."""
    try:
        return ["returned", _text(call())]
    except (Exception, SystemExit) as error:
        kind, message = type(error).__name__, _text(error)
        if isinstance(error, TypeError) and _BINDING.search(str(error)):
            message = "arguments that do not fit"  # Python itself words it in two ways
        return ["raised", kind, message]


def _text(value: object) -> str:
    text = str(value) if isinstance(value, BaseException) else repr(value)
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def digest(pool: Any) -> list[str]:
    """Return a digest of a pool's state and of how it goes on."""

    def everything() -> str:
        plain = json.dumps(pool.state(), sort_keys=True)
        went_on = [pool.assign(f"later{number}").plain() for number in range(5)]
        return hashlib.sha256(repr((plain, went_on)).encode()).hexdigest()[:16]

    return outcome(everything)


def names() -> dict[str, Any]:
    """Return what the calls may use, with a pool of their own."""
    modules = {"copy": copy, "json": json, "np": np, "pickle": pickle, "sys": sys}
    numbers = {"Decimal": Decimal, "Fraction": Fraction, "Size": Size, "Text": Text}
    pools = {"ARMS": ARMS, "any_pool": any_pool, "asleep": asleep, "several": several}
    ours = {"Fixed": Fixed, "Request": Request, "digest": digest, "pool": made()}
    return {**modules, **numbers, **pools, **vars(fair_allocator), **ours}


def one_call(call: str) -> Iterator[list[Any]]:
    known = names()
    result: list[Any] = []

    def run() -> Any:
        result.append(eval(call, known))
        return result[0]

    yield [call, *outcome(run)]
    yield [call, "the pool", *digest(known["pool"])]
    if result and isinstance(result[0], Pool):
        yield [call, "the new pool", *digest(result[0])]


def one_learner(body: str) -> Iterator[list[Any]]:
    """Use a learner for a while, in every way a pool uses one."""
    known = names()
    choose = "" if "choose(" in body else "    def choose(self, round): return 1\n"
    exec(f"class Mine(Learner):\n    seen = None\n    {body}\n{choose}", known)
    known["learner"] = learner = known["Mine"]()
    learner.seen = []
    yield [body, *outcome(lambda: known.update(pool=Pool(ARMS, learner=learner)))]
    for step in STEPS:
        yield [body, step, *outcome(partial(eval, step, known))]


def figures() -> Iterator[list[Any]]:
    """Read every property, and call every method that needs no argument."""
    for name in public():
        for kind, pool in (("new", Pool(ARMS)), ("used", made())):
            yield [f"{kind} pool.{name}", *outcome(partial(_read, pool, name))]


def _read(pool: Pool, name: str) -> Any:
    value = getattr(pool, name)
    if not callable(value):
        return value
    return "needs arguments" if needed(name) else value()


def public() -> list[str]:
    return [name for name in dir(made()) if not name.startswith("_")]


def needed(name: str) -> list[str]:
    """Return the parameters that a method of a pool cannot do without."""
    method = getattr(made(), name)
    if not callable(method):
        return []
    parameters = inspect.signature(method).parameters.values()
    return [each.name for each in parameters if each.default is each.empty]


def main() -> None:
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(["form", FORM]) + "\n")
    calls = [call.replace("?", value) for call in (*CALLS, *SELECTION) for value in VALUES]
    bodies = [f"def choose(self, round): return {choice}" for choice in CHOICES]
    for call in dict.fromkeys((*calls, *SINGLE)):
        _print(one_call(call))
    for body in (*bodies, *HOOKS):
        _print(one_learner(body))
    _print(figures())
    methods = [name for name in public() if needed(name)]
    sys.stdout.write(json.dumps(["methods", methods]) + "\n")


def _print(lines: Iterator[list[Any]]) -> None:
    for line in lines:
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
