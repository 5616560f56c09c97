"""Every small case: adversarial subsets, slots, learner and ties; (I) after every request.

`reach` follows all that can happen from the start. `leave_safe_states` asks more: that no request
leads out of (I) from *any* state in it, reachable or not, on a grid finer than the quotas, as
changes of quotas may leave it behind.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pytest

from tests.selection.scaled import RIGHT, Answer, Scaled, Variant, fits

pytestmark = pytest.mark.slow

State = tuple[int, ...]
Move = tuple[tuple[int, ...], Answer]


def moves(pool: Scaled, holders: int, slots: int, *, plain: bool = False) -> Iterator[Move]:
    """Return every request and every answer to it that the rule allows, ties decided either way.

    Arms from `holders` on have no quota; it does not matter which of them are there.
    """
    free = range(holders, pool.size)
    for size in range(holders, -1, -1):
        for named in combinations(range(holders), size):
            for others in range(len(free) + 1):
                present = named + tuple(free[:others])
                if plain and len(present) < pool.size:
                    continue
                for filled in range(1, min(slots, len(present)) + 1):
                    for answer in answers(pool, present, filled):
                        yield present, answer


def answers(pool: Scaled, present: Sequence[int], filled: int) -> Iterator[Answer]:
    owed = pool.owed(present, filled)
    if len(owed) <= filled:
        forced = [arm for _, arm in owed]
        left = [arm for arm in present if arm not in forced]
        for chosen in combinations(left, filled - len(owed)):
            yield Answer(forced, list(chosen), filled)
        return
    last = owed[filled - 1][0]
    first = [arm for key, arm in owed if key < last]
    tied = [arm for key, arm in owed if key == last]
    for some in combinations(tied, filled - len(first)):
        yield Answer([*first, *some], [], filled)


def successors(
    pool: Scaled, state: State, slots: int, *, plain: bool = False
) -> Iterator[tuple[State, Move]]:
    """Return the states that one request can lead to; `state` has the arms with a quota."""
    holders, start = len(state), list(state) + [0] * (pool.size - len(state))
    seen = set()
    pool.claim[:] = start
    for move in list(moves(pool, holders, slots, plain=plain)):
        pool.claim[:] = start
        pool.count(*move)
        after = tuple(pool.claim[:holders])
        if after not in seen:
            seen.add(after)
            yield after, move


def reach(
    unit: int, quotas: Sequence[int], slots: int, variant: Variant = RIGHT, limit: int = 10**9
) -> tuple[int, list[Move]]:
    """Play all that can happen; return the states seen, and how (I) was broken if it was.

    With a bank of 1 nobody gets far ahead, so there is an end to it.
    """
    pool = Scaled(unit, [*quotas, *[0] * slots], bank=1, variant=variant)
    start = (0,) * len(quotas)
    came: dict[State, tuple[State, Move] | None] = {start: None}
    todo = [start]
    while todo and len(came) < limit:
        state = todo.pop()
        for after, move in successors(pool, state, slots):
            if after not in came:
                came[after] = state, move
                if not fits(unit, after, quotas):
                    return len(came), _path(came, after)
                todo.append(after)
    return len(came), []


def _path(came: dict[State, tuple[State, Move] | None], state: State) -> list[Move]:
    path = []
    while (before := came[state]) is not None:
        state, move = before
        path.append(move)
    return path[::-1]


def leave_safe_states(
    unit: int,
    quotas: Sequence[int],
    slots: int,
    variant: Variant = RIGHT,
    *,
    slack: int = 0,
    plain: bool = False,
) -> tuple[int, tuple[State, Move] | None]:
    """Return how many states are in (I), and one that a request leads out of (I), if any.

    `slack` is by how much a lower tolerance waits.
    """
    pool = Scaled(unit, [*quotas, *[0] * slots], slack, bank=1, variant=variant)
    pool.tolerance = 0
    safe = 0
    for state in product(range(-unit, unit), repeat=len(quotas)):
        if fits(unit, state, quotas):
            safe += 1
            for after, move in successors(pool, state, slots, plain=plain):
                if not fits(unit, after, quotas):
                    return safe, (state, move)
    return safe, None


def vectors(size: int, units: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Return quotas in units, largest first, that sum to 1 or one unit less."""
    return [
        (unit, quotas)
        for unit in units
        for quotas in product(range(1, unit + 1), repeat=size)
        if sorted(quotas, reverse=True) == list(quotas) and unit - 1 <= sum(quotas) <= unit
    ]


REACHED = [(v, slots) for v in vectors(2, (3, 4, 5, 6, 8)) for slots in (1, 2, 3)]
REACHED += [(v, slots) for v in vectors(3, (4, 5, 6)) for slots in (1, 2)]
REACHED += [((4, (1, 1, 1, 1)), 1), ((5, (2, 1, 1, 1)), 1), ((6, (2, 2, 1, 1)), 1)]

SAFE = [(v, 2) for v in vectors(2, (4, 5, 6))] + [(v, 1) for v in vectors(3, (3, 4))]


@pytest.mark.parametrize("part", range(4))
def test_nothing_that_can_happen_breaks_the_invariant(part: int) -> None:
    for (unit, quotas), slots in REACHED[part::4]:
        states, path = reach(unit, quotas, slots)
        assert not path, (unit, quotas, slots, path)
        assert states > 1


@pytest.mark.parametrize("variant", [Variant(ahead=False), Variant(by_slots=False)])
def test_without_clause_b_or_deadlines_it_breaks(variant: Variant) -> None:
    broken = [v for v, slots in REACHED if len(v[1]) == 3 and reach(*v, slots, variant)[1]]
    assert len(broken) >= 8


@pytest.mark.parametrize("slack", [0, 1])
def test_no_request_leads_out_of_any_safe_state(slack: int) -> None:
    for (unit, quotas), slots in SAFE:
        finer = [2 * quota for quota in quotas]
        assert leave_safe_states(2 * unit, finer, slots, slack=slack)[1] is None


@pytest.mark.parametrize("slack", [0, 1])
def test_late_trigger_leads_out_of_no_safe_state_in_plain_requests(slack: int) -> None:
    late = Variant(late=True)
    for unit, quotas in vectors(2, (5, 6)) + vectors(3, (4, 5)):
        if sum(quotas) < unit:
            finer = [2 * quota for quota in quotas]
            _, way = leave_safe_states(2 * unit, finer, 1, late, slack=slack, plain=True)
            assert way is None, (unit, quotas)
