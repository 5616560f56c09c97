"""Calls are made again where that helps, with the same id, and never where it would do harm."""

import json
from collections.abc import Callable, Iterator, Sequence

import httpx
import pytest

from fair_allocator.client import (
    Ask,
    Assignment,
    BadAnswer,
    Decline,
    FakeAllocator,
    FakeServer,
    Recorded,
    Refused,
    Reward,
    TooBusy,
    Unauthorised,
    Unreachable,
    Waiting,
    talks,
)
from fair_allocator.client.exchange import Call, Failure, Pause, Reply, Retries, Talk

MIDDLE = Retries(3, draw=lambda: 0.5)
LOST = Failure(httpx.ReadTimeout("nothing came"), sent=True)
REFUSED_CONNECTION = Failure(httpx.ConnectError("nobody listens"), sent=False)
ANSWER = {
    "pool": "p",
    "request_id": "r",
    "arm": "ann",
    "arms": [{"arm": "ann", "reason": "learner", "propensity": None}],
    "round": 1,
    "epoch": 1,
    "repeat": False,
}


def reply(status: int, content: object = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, content)


def play(
    talk: Talk[object], outcomes: Sequence[Reply | Failure]
) -> tuple[list[Call], list[float], object]:
    """Answer a talk's calls one after the other; return them, its pauses and its result."""
    calls: list[Call] = []
    pauses: list[float] = []
    coming = iter(outcomes)
    outcome: Reply | Failure | None = None
    while True:
        try:
            step = talk.send(outcome)
        except StopIteration as end:
            assert next(coming, None) is None, "not all answers were wanted"
            return calls, pauses, end.value
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            outcome = None
        else:
            calls.append(step)
            outcome = next(coming)


def asking(wait: float = 10.0, now: Callable[[], float] = lambda: 0.0) -> Talk[object]:
    return talks.assign(Ask("p", "r"), wait, MIDDLE, now)


@pytest.mark.parametrize("trouble", [LOST, REFUSED_CONNECTION, reply(503), reply(429), reply(502)])
def test_trouble_that_passes_is_waited_out_with_the_same_id(trouble: Reply | Failure) -> None:
    calls, pauses, result = play(asking(), [trouble, trouble, reply(200, ANSWER)])
    assert isinstance(result, Assignment)
    assert {json.loads(call.body or b"")["request_id"] for call in calls} == {"r"}
    assert pauses == [0.1 * 0.75, 0.2 * 0.75]


def test_the_pauses_grow_up_to_a_limit() -> None:
    patient = Retries(100, draw=lambda: 0.0)
    pauses = [patient.pause(attempt, LOST) for attempt in (0, 1, 5, 50, 99)]
    assert pauses == [0.05, 0.1, 1.6, 2.5, 2.5]
    assert patient.pause(100, LOST) is None


def test_the_server_is_left_alone_for_as_long_as_it_wants() -> None:
    _, pauses, _ = play(asking(), [reply(429, retry_after="7"), reply(200, ANSWER)])
    assert pauses == [7 * 1.125]


def test_a_server_that_wants_to_be_left_alone_for_long_is_not_waited_for() -> None:
    with pytest.raises(TooBusy) as caught:
        play(asking(), [reply(429, retry_after="3600")])
    assert caught.value.retry_after == 3600


def test_a_retry_after_that_is_a_date_is_not_understood() -> None:
    moment = "Wed, 21 Oct 2026 07:28:00 GMT"
    _, pauses, _ = play(asking(), [reply(503, retry_after=moment), reply(200, ANSWER)])
    assert pauses == [0.1 * 0.75]


@pytest.mark.parametrize(
    ("trouble", "error", "words"),
    [
        (LOST, Unreachable, "4 attempts.*nothing came.*again is safe"),
        (REFUSED_CONNECTION, Unreachable, "check the address"),
        (reply(503, {"detail": "shutting down"}), Unreachable, "shutting down"),
        (reply(429), TooBusy, "too much to do"),
    ],
)
def test_in_the_end_it_is_said_what_to_do(
    trouble: Reply | Failure, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        play(asking(), [trouble] * 4)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(429, {"reason": "too-many-waiting"}, retry_after="1"), Refused),
        (reply(409, {"reason": "nobody-free"}), Refused),
        (reply(413, {"title": "too large"}), Refused),
        (reply(401), Unauthorised),
        (reply(403, {"detail": "needs the right ask"}), Unauthorised),
        (reply(500), BadAnswer),
        (reply(404), BadAnswer),
        (reply(302), BadAnswer),
        (reply(200, ["no", "answer"]), BadAnswer),
        (reply(200, None), BadAnswer),
        (reply(202, None), BadAnswer),
    ],
)
def test_what_stays_wrong_is_not_tried_again(answer: Reply, error: type[Exception]) -> None:
    with pytest.raises(error):
        play(asking(wait=0), [answer])


# -- what must not happen twice -----------------------------------------------------------------


@pytest.mark.parametrize(
    "talk",
    [
        lambda: talks.decline(Decline("p", "r"), MIDDLE),
        lambda: talks.control("p", "remove", {}, MIDDLE),
        lambda: talks.decline_many([Decline("p", "r", "ann"), Decline("p", "s")], MIDDLE),
    ],
    ids=["decline", "remove", "batch"],
)
@pytest.mark.parametrize("trouble", [LOST, reply(503)], ids=["lost", "away"])
def test_what_would_count_twice_is_not_sent_twice(
    talk: Callable[[], Talk[object]], trouble: Reply | Failure
) -> None:
    with pytest.raises(Unreachable):
        play(talk(), [trouble])


@pytest.mark.parametrize("trouble", [REFUSED_CONNECTION, reply(429)])
def test_but_again_if_it_certainly_did_not_arrive(trouble: Reply | Failure) -> None:
    done = reply(202, {"pool": "p", "request_id": "r", "partition": 0, "offset": 3})
    calls, _, result = play(talks.decline(Decline("p", "r"), MIDDLE), [trouble, done])
    assert (len(calls), result) == (2, Recorded("p", "r", 0, 3))


def test_a_decline_that_names_its_arm_is_sent_again() -> None:
    done = reply(202, {"pool": "p", "request_id": "r", "partition": 0, "offset": 3})
    calls, _, _ = play(talks.decline(Decline("p", "r", "ann"), MIDDLE), [LOST, done])
    assert len(calls) == 2


# -- waiting ------------------------------------------------------------------------------------


def clock(*moments: float) -> Callable[[], float]:
    coming = iter(moments)
    last = [0.0]

    def now() -> float:
        last[0] = next(coming, last[0])
        return last[0]

    return now


def test_a_long_wait_is_several_calls() -> None:
    pending = reply(202, {"status": "pending"})
    # A beginning; then before and after each call, and before each pause.
    now = clock(0, 0, 60, 60, 60, 90, 90)
    calls, _, result = play(asking(90, now), [pending, reply(200, ANSWER)])
    assert isinstance(result, Assignment)
    assert [(call.method, call.query["wait"]) for call in calls] == [("POST", "60"), ("GET", "30")]
    assert calls[1].path == "/v1/pools/p/requests/r"


def test_a_server_that_forgot_the_request_is_sent_it_again() -> None:
    forgotten = reply(404, {"reason": "unknown-request"})
    outcomes = [reply(202, {"status": "pending"}), forgotten, reply(200, ANSWER)]
    calls, _, _ = play(asking(90), outcomes)
    assert [call.method for call in calls] == ["POST", "GET", "POST"]


def test_when_the_time_is_up_the_request_still_waits() -> None:
    now = clock(0, 0, 10)
    with pytest.raises(Waiting) as caught:
        play(asking(10, now), [reply(202, {"status": "waiting", "why": "paused"})])
    assert (caught.value.request_id, caught.value.why) == ("r", "paused")


def test_attempts_together_wait_for_no_longer_than_wanted() -> None:
    now = clock(0, 0, 4)
    calls, _, _ = play(asking(10, now), [LOST, reply(200, ANSWER)])
    assert [call.query["wait"] for call in calls] == ["10", "6"]


@pytest.mark.parametrize("wait", [-1, float("nan")])
def test_a_wait_is_a_number_of_seconds(wait: float) -> None:
    with pytest.raises(ValueError, match="wait"):
        play(asking(wait), [])


# -- batches ------------------------------------------------------------------------------------


def test_only_the_items_that_were_too_many_are_sent_again() -> None:
    asks = [Ask("p", "a"), Ask("p", "b"), Ask("p", "c")]
    busy, refused = {"status_code": 429}, {"status_code": 404, "reason": "unknown-pool"}
    first = reply(200, [{"status_code": 200, **ANSWER}, busy, refused])
    second = reply(200, [{"status_code": 200, **ANSWER, "request_id": "b"}])
    calls, pauses, result = play(talks.assign_many(asks, 1, MIDDLE), [first, second])
    sent = [[item["request_id"] for item in json.loads(call.body or b"")] for call in calls]
    assert sent == [["a", "b", "c"], ["b"]]
    assert len(pauses) == 1
    assert isinstance(result, list)
    assert isinstance(result[1], Assignment)
    assert result[1].request_id == "b"
    assert isinstance(result[2], Refused)


def test_items_that_stay_too_many_say_so() -> None:
    busy = reply(200, [{"status_code": 429}])
    _, pauses, result = play(talks.reward_many([Reward("p", "a", 1)], MIDDLE), [busy] * 4)
    assert len(pauses) == 3
    assert isinstance(result, list)
    assert isinstance(result[0], TooBusy)


def test_an_answer_with_too_few_items_is_a_bad_one() -> None:
    with pytest.raises(BadAnswer, match="1 answers to 2"):
        play(
            talks.reward_many([Reward("p", "a", 1)] * 2, MIDDLE),
            [reply(200, [{"status_code": 429}])],
        )


def test_a_batch_has_an_end() -> None:
    with pytest.raises(ValueError, match="at most 1,000"):
        play(talks.reward_many([Reward("p", "a", 1)] * 1_001, MIDDLE), [])


# -- the fake -----------------------------------------------------------------------------------


@pytest.fixture
def server() -> FakeServer:
    return FakeServer({"p": ["ann", "bob"]}, reassign=True)


@pytest.fixture
def fake(server: FakeServer) -> Iterator[FakeAllocator]:
    with FakeAllocator(server) as allocator:
        yield allocator


def test_the_fake_fails_as_told(server: FakeServer, fake: FakeAllocator) -> None:
    server.fail_next()
    with pytest.raises(Unreachable, match="told to fail"):
        fake.assign("p")
    server.fail_next(409, reason="nobody-free")
    with pytest.raises(Refused, match="nobody-free"):
        fake.assign("p")
    server.fail_next(429)
    with FakeAllocator(server, retries=1) as patient:
        assert patient.assign("p").arm == "ann"


def test_the_fake_gives_a_declined_request_to_somebody_else(
    server: FakeServer, fake: FakeAllocator
) -> None:
    with fake.watch("p") as feed:
        first = fake.assign("p", request_id="r")
        fake.decline("p", "r")
        answers = list(feed)
    assert (first.arm, [answer.arm for answer in answers]) == ("ann", ["ann", "bob"])
    assert answers[1].instead_of == "ann"
    assert fake.find("p", "r").arm == "bob"
    assert server.declines == [{"request_id": "r", "pool": "p"}]


def test_the_fake_refuses_to_give_what_it_has_not(server: FakeServer) -> None:
    with pytest.raises(ValueError, match="has the arms"):
        server.give_next("p", "eve")


def test_a_name_is_no_list_of_arms(fake: FakeAllocator) -> None:
    with pytest.raises(TypeError, match=r"such as \['ann'\]"):
        fake.assign("p", eligible="ann")


def test_a_number_that_json_has_not_is_refused_before_it_is_sent(fake: FakeAllocator) -> None:
    with pytest.raises(ValueError, match="JSON"):
        fake.reward("p", "r", float("nan"))
