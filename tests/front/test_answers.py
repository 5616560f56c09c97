"""Who is told what, in whichever order things are heard."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fair_allocator.front.answers import Answers
from fair_allocator.front.outcomes import Heard, Outcome, fold, key_in, key_of
from fair_allocator.front.waiting import Asker, LogAway
from fair_allocator.log.records import Record
from tests.front.records import assigned, refused, waiting
from tests.support.pace import scaled

KEY = key_of("p", "r")
T = TypeVar("T")


def told(*records: Record) -> Outcome:
    """Return what is known after these."""
    answers = Answers(100)
    answers.hear(records)
    found = answers.find(KEY)
    assert found is not None
    return found


def arms(outcome: Outcome) -> list[str]:
    return [each["arm"] for each in outcome.arms]


# -- what records say -----------------------------------------------------------------------------


@given(pool=st.text(min_size=1, max_size=20), request_id=st.text(min_size=1, max_size=20))
def test_a_record_is_found_under_its_request_whatever_the_names(pool: str, request_id: str) -> None:
    key = key_of(pool, request_id)
    assert key_in(assigned(request_id, pool=pool)) == key
    assert key_in(waiting(request_id, pool=pool)) == key
    assert key_in(refused(request_id, pool=pool)) == key


def test_a_truncated_letter_is_found_too() -> None:
    assert key_in(refused(truncated=True)) == KEY


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b"{}", b'{"type":"tick"}', b'{"type":"epoch","pool":"p","epoch":1}', b"\xff"],
)
@pytest.mark.parametrize("topic", ["assignments", "dead-letters"])
def test_other_records_are_about_no_request(topic: str, value: bytes | None) -> None:
    assert key_in(Record(topic, 0, 0, b"p", value, 0)) is None


def test_a_record_that_no_service_wrote_is_passed_over() -> None:
    good = assigned()
    odd = good._replace(value=b'{"type":"assignment","pool":"p","request_id":"r"}')
    assert Heard.of(odd) is None
    assert arms(told(odd, good, odd)) == ["ann"]


def test_a_letter_counts_by_its_place_not_by_when_it_is_heard() -> None:
    """The first request was refused, the second one with the same id was not."""
    first, second = refused(at=1), assigned(at=5)
    for order in ([first, second], [second, first]):
        assert told(*order).status == "assigned"
    assert told(assigned(at=1), refused(at=5)).status == "refused"
    assert told(waiting(of=3), refused(at=3, reason="waited-too-long")).status == "refused"
    assert told(refused(at=3, reason="waited-too-long"), waiting(of=3)).status == "refused"


def test_a_later_decision_replaces_an_arm() -> None:
    made = told(assigned(others=("bob",)), assigned(arm="cyd", late=0, at=7, instead_of="ann"))
    assert (arms(made), made.instead_of) == (["cyd", "bob"], "ann")
    again = assigned(arm="cyd", late=0, at=7, instead_of="ann")
    assert arms(told(assigned(others=("bob",)), again, again, assigned(others=("bob",)))) == [
        "cyd",
        "bob",
    ]


def test_one_of_several_arms_that_cannot_be_replaced_leaves_the_others() -> None:
    letter = refused(reason="nobody-left")
    assert told(assigned(others=("bob",)), letter).status == "assigned"
    assert told(assigned(), letter).status == "refused"


def test_a_request_that_waits_for_another_arm_keeps_those_it_has() -> None:
    declined = told(assigned(others=("bob",)), waiting(instead_of="ann"))
    assert declined.status == "waiting"
    again = fold(declined, told(assigned(arm="cyd", late=0, at=9, instead_of="ann")))
    assert (again.status, arms(again)) == ("assigned", ["cyd", "bob"])


# -- who waits ------------------------------------------------------------------------------------


def in_loop(test: Callable[[Answers], Awaitable[T]]) -> T:
    async def run() -> T:
        answers = Answers(100)
        answers.attach(asyncio.get_running_loop())
        return await test(answers)

    return asyncio.run(run())


async def is_over(asker: Asker) -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return asker.future.done()


def put(answers: Answers, asker: Asker, offset: int) -> None:
    answers.put([asker], [(0, offset)])


def test_the_answer_may_be_heard_before_the_place_is_known() -> None:
    async def test(answers: Answers) -> None:
        asker = answers.ask(KEY, patient=True)
        answers.hear([assigned(at=4)])
        assert not await is_over(asker)
        put(answers, asker, 4)
        assert await is_over(asker)
        outcome = answers.leave(KEY, asker)
        assert outcome is not None
        assert (outcome.status, outcome.offset, asker.repeat) == ("assigned", 4, False)

    in_loop(test)


def test_the_answer_to_an_earlier_record_does_not_count() -> None:
    async def test(answers: Answers) -> None:
        answers.hear([refused(at=1)])
        asker = answers.ask(KEY, patient=True)
        answers.hear([refused(at=2)])
        put(answers, asker, 4)
        answers.hear([refused(at=3)])
        assert not await is_over(asker)
        answers.hear([assigned(at=4)])
        assert await is_over(asker)

    in_loop(test)


def test_a_repeat_is_answered_by_its_own_record_and_told_so() -> None:
    async def test(answers: Answers) -> None:
        answers.hear([assigned(at=1)])
        asker = answers.ask(KEY, patient=True)
        put(answers, asker, 6)
        assert not await is_over(asker)
        answers.hear([assigned(at=6, repeat=True)])
        assert await is_over(asker)
        outcome = answers.leave(KEY, asker)
        assert outcome is not None
        assert (asker.repeat, outcome.offset) == (True, 1)

    in_loop(test)


def test_a_repeat_of_a_request_that_waits_gets_the_answer_to_it() -> None:
    async def test(answers: Answers) -> None:
        first, second = (answers.ask(KEY, patient=True) for _ in range(2))
        put(answers, first, 1)
        put(answers, second, 6)
        answers.hear([waiting(of=1), waiting(of=1, at=6)])
        assert not await is_over(first)
        assert not await is_over(second)
        answers.hear([assigned(late=1, at=9)])
        assert await is_over(first)
        assert await is_over(second)

    in_loop(test)


def test_the_impatient_wait_for_the_place_only() -> None:
    async def test(answers: Answers) -> None:
        asker = answers.ask(KEY, patient=False)
        assert not await is_over(asker)
        put(answers, asker, 1)
        assert await is_over(asker)
        other = answers.ask(KEY, patient=True)
        answers.hurry(other)
        assert not await is_over(other), "it is not durable yet"
        put(answers, other, 2)
        assert await is_over(other)

    in_loop(test)


def test_an_append_that_failed_is_told() -> None:
    async def test(answers: Answers) -> None:
        asker = answers.ask(KEY, patient=True)
        answers.fail([asker], "no disk")
        with pytest.raises(LogAway, match="no disk"):
            await asyncio.wait_for(asker.future, scaled(60))
        answers.leave(KEY, asker)
        assert answers.find(KEY) is None
        assert len(answers) == 0

    in_loop(test)


def test_who_looks_for_a_request_hears_of_any_answer() -> None:
    async def test(answers: Answers) -> None:
        finder = answers.look_for(KEY)
        answers.hear([waiting()])
        await asyncio.sleep(0)
        assert not finder.future.done()
        answers.hear([assigned(late=0, at=3)])
        await asyncio.wait_for(finder.future, scaled(60))
        answers.leave(KEY, finder)
        known = answers.look_for(KEY)
        assert known.future.done()

    in_loop(test)


def test_the_oldest_are_forgotten_but_not_while_somebody_waits() -> None:
    async def test(answers: Answers) -> None:
        asker = answers.ask(KEY, patient=True)
        for number in range(1_000):
            answers.hear([assigned(f"r{number}", at=number)])
        assert len(answers) <= 102
        assert answers.find(key_of("p", "r999")) is not None
        assert answers.find(key_of("p", "r1")) is None
        put(answers, asker, 1_000)
        answers.hear([assigned(at=1_000)])
        assert await is_over(asker)

    in_loop(test)


def test_large_dead_letters_do_not_stay_in_memory() -> None:
    """Any producer can make the service refuse large requests that nobody asks for again."""
    answers = Answers(50_000)
    tracemalloc.start()
    for number in range(300):
        answers.hear([refused(f"r{number}", at=number, padding=50_000)])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(answers) == 300
    assert taken < 3_000_000, "of 20 MB of letters"
    known = answers.find(key_of("p", "r0"))
    assert known is not None
    assert (known.status, known.reason, known.message) == ("refused", "nobody-free", "why")


@pytest.mark.parametrize("asked_for", [False, True], ids=["unread", "read"])
def test_answers_with_many_arms_are_forgotten_before_they_take_the_memory(asked_for: bool) -> None:
    answers = Answers(50_000, most_bytes=1_000_000)
    others = tuple(f"arm number {number}" for number in range(200))
    tracemalloc.start()
    for number in range(300):
        answers.hear([assigned(f"r{number}", at=number, others=others)])
        if asked_for:
            assert answers.find(key_of("p", f"r{number}")) is not None
            answers.hear([assigned(f"r{number}", at=number, others=others)])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answers.taken <= 1_000_000
    assert taken < 1_500_000
    assert answers.find(key_of("p", "r0")) is None
    assert answers.find(key_of("p", "r299")) is not None
    for number in range(3_000):
        answers.hear([assigned(f"small {number}", at=number)])
    assert answers.find(key_of("p", "r299")) is None, "the oldest are forgotten, large or not"
    assert 500 < len(answers) < 1_500
    assert answers.taken <= 1_000_000


def test_at_the_end_nobody_waits_any_longer() -> None:
    async def test(answers: Answers) -> None:
        durable, other = (answers.ask(KEY, patient=True) for _ in range(2))
        finder = answers.look_for(KEY)
        put(answers, durable, 1)
        answers.release()
        assert await is_over(durable)
        assert finder.future.done()
        assert not await is_over(other), "it may yet become durable"
        answers.fail([other], "the end")
        with pytest.raises(LogAway):
            await other.future

    in_loop(test)
