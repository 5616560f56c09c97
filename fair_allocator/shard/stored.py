"""Check the stored state of a hosted pool, except the part that `core.Pool` checks itself."""

from collections.abc import Mapping
from typing import Any, Final

from fair_allocator.core.checking import MOST
from fair_allocator.core.errors import InvalidState
from fair_allocator.core.expecting import list_in, mapping_in, real_in, refuse, text_in, whole_in
from fair_allocator.shard.pace import A_REQUEST

LATEST: Final = 10**15
"""The latest valid time in ms, about 30,000 years from now. Ends of timeouts stay below it, too."""

FASTEST: Final = 10**9
"""The highest rate and the largest burst."""


def check_hosted(state: Any) -> None:
    """Refuse a state that no hosted pool can have."""
    mapping_in("state", state)
    _check_hosting(state)
    whole_in("stood", state["stood"], 0, MOST)
    if "pace" in state:
        level, at = list_in("pace", state["pace"], 2)
        whole_in("pace", level, 0, FASTEST * A_REQUEST)
        whole_in("pace", at, 0, LATEST)
    for clock in list_in("clocks", state["clocks"]):
        whole_in("clocks", clock, 0, LATEST)
    for arm, tags in mapping_in("tags", state.get("tags", {})).items():
        text_in("tags", arm)
        for tag in list_in(f"tags of {arm!r}", tags):
            text_in(f"tags of {arm!r}", tag)
    for asked in list_in("asked", state.get("asked", [])):
        _check_asked("asked", list_in("asked", asked))
    for waiter in list_in("waiting", state.get("waiting", [])):
        if len(list_in("waiting", waiter)) not in (6, 7):
            refuse("waiting", "requests of 6 or 7 fields", waiter)
        *asked, instead_of, since = waiter
        _check_asked("waiting", asked)
        text_in("waiting", instead_of)
        whole_in("waiting", since, 0, LATEST)


def _check_hosting(state: Mapping[str, Any]) -> None:
    for key in ("reward_timeout", "wait_timeout"):
        if state.get(key) is not None:
            whole_in(key, state[key], 1, LATEST)
    for key in ("rate", "burst"):
        if state.get(key) is not None:
            whole_in(key, state[key], 1, FASTEST)
    if state.get("default_reward") is not None:
        real_in("default_reward", state["default_reward"], 0, 1)
    for key in ("on_demand", "paused", "reassign"):
        if type(state.get(key, False)) is not bool:
            refuse(key, "true or false", state[key])
    text_in("fingerprint", state["fingerprint"])
    if state.get("when_busy", "wait") not in ("wait", "refuse"):
        refuse("when_busy", "wait or refuse", state["when_busy"])


def _check_asked(key: str, asked: list[Any]) -> None:
    """Check a stored request: offset, time, key and value, and headers if it has any."""
    if len(asked) not in (4, 5):
        refuse(key, "requests of 4 or 5 fields", asked)
    offset, timestamp, name, value, *headers = asked
    whole_in(key, offset, 0, MOST)
    whole_in(key, timestamp, -LATEST, LATEST)
    text_in(key, value)
    if name is not None and any(ord(letter) > 255 for letter in text_in(key, name)):
        refuse(key, "keys in bytes", name)
    for header in list_in(key, headers[0]) if headers else ():
        header_name, header_value = list_in(key, header, 2)
        text_in(key, header_name)
        if any(ord(letter) > 255 for letter in text_in(key, header_value)):
            refuse(key, "headers in bytes", header_value)


def check_open(clocks: list[int], open_assignments: int) -> None:
    """Refuse a state in which the number of times differs from the number of open assignments."""
    if len(clocks) != open_assignments:
        raise InvalidState(
            f"clocks must have {open_assignments:,} times, one for each open assignment, got "
            f"{len(clocks):,}"
        )
