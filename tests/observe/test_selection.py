"""A selection is sticky: what has series keeps them, unless something urgent needs the room."""

from fair_allocator.observe.selection import Selection


def refused() -> list[str]:
    raise AssertionError("not to be asked: there is no room")


def test_few_are_all_chosen() -> None:
    assert Selection[str](3).update(["b", "a"], [], refused) == ["b", "a"]


def test_many_are_chosen_best_first() -> None:
    assert Selection[str](2).update("abcd", [], lambda: "dcba") == ["d", "c"]


def test_the_chosen_stay_whoever_is_best_later() -> None:
    selection = Selection[str](2)
    selection.update("abcd", [], lambda: "dcba")
    assert selection.update("abcd", [], refused) == ["d", "c"]


def test_one_that_is_gone_makes_room() -> None:
    selection = Selection[str](2)
    selection.update("abcd", [], lambda: "dcba")
    assert selection.update("abc", [], lambda: "abc") == ["c", "a"]


def test_the_urgent_push_the_last_of_the_others_out() -> None:
    selection = Selection[str](3)
    selection.update("abcdef", [], lambda: "abcdef")
    assert selection.update("abcdef", ["f"], refused) == ["a", "b", "f"]
    assert selection.update("abcdef", ["f", "e"], refused) == ["a", "f", "e"]
    assert selection.update("abcdef", ["b"], refused) == ["a", "f", "b"]


def test_more_urgent_ones_than_there_is_room_for() -> None:
    selection = Selection[str](2)
    selection.update("abcdef", [], lambda: "abcdef")
    assert set(selection.update("abcdef", "cdef", refused)) < set("cdef")


def test_none_may_be_chosen() -> None:
    assert Selection[str](0).update("ab", ["a"], lambda: "ab") == []
