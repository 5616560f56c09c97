"""What every log promises about headers."""

import pytest

from fair_allocator.log import HEADERS_BYTES, Headers, Incoming, LogClient, Outgoing
from tests.conformance.conftest import IN_EVERY_MODE, LogFactory

pytestmark = IN_EVERY_MODE

STRANGE: Headers = (
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("twice", b"1"),
    ("é \n\"'", b"\x00\xff\xfe"),
    ("twice", b"2"),
    ("", b"no name"),
    ("nothing", b""),
)


def test_headers_pass_both_ways_as_they_are(log_factory: LogFactory, client: LogClient) -> None:
    client.append(
        "requests", b"pool", b"v", partition=0, timestamp=1_700_000_000_123, headers=STRANGE
    )
    service = log_factory.service().owning()
    (record,) = service.take(1)
    assert record.headers == STRANGE
    assert (record.key, record.value, record.timestamp) == (b"pool", b"v", 1_700_000_000_123)
    answer = Outgoing("assignments", 0, b"pool", b"answer", record.headers)
    service.log.commit([answer], {}, {})
    (found,) = client.read("assignments", 0)
    assert (found.key, found.value, found.headers) == (b"pool", b"answer", STRANGE)


def test_a_record_without_headers_has_none(log_factory: LogFactory, client: LogClient) -> None:
    client.append("requests", b"pool", b"v", partition=0)
    service = log_factory.service().owning()
    assert service.take(1)[0].headers == ()
    service.log.commit([Outgoing("assignments", 0, b"pool", b"answer")], {}, {})
    assert [record.headers for record in client.read("assignments", 0)] == [()]


def test_each_record_of_many_keeps_its_own_headers(
    log_factory: LogFactory, client: LogClient
) -> None:
    own: list[Headers] = [
        (("number", b"%d" % number),) if number % 3 == 0 else () for number in range(90)
    ]
    client.append_many([Incoming("requests", b"k", b"v", 1, headers=each) for each in own[:50]])
    client.append_many(
        [Incoming("requests", b"k", b"v", 1, headers=each) for each in own[50:]], atomic=True
    )
    assert [record.headers for record in client.read("requests", 1)] == own
    service = log_factory.service().owning()
    records = service.take(90)
    assert [record.headers for record in records] == own
    answers = [Outgoing("assignments", 1, b"k", b"v", record.headers) for record in records]
    service.log.send_ahead(answers[:40])
    service.log.send_ahead(answers[40:60])
    service.log.commit([*answers[60:], Outgoing("journal", 1, None, b"entry")], {}, {})
    assert [record.headers for record in client.read("assignments", 1)] == own


def test_headers_are_there_after_a_reopen(log_factory: LogFactory, client: LogClient) -> None:
    client.append("requests", b"pool", b"v", partition=2, headers=STRANGE)
    service = log_factory.service().owning()
    service.take(1)
    service.log.commit([Outgoing("assignments", 2, b"pool", b"a", STRANGE)], {}, {})
    service.log.close()
    service = log_factory.service().owning()
    assert service.take(1)[0].headers == STRANGE
    assert [record.headers for record in client.read("assignments", 2)] == [STRANGE]


def test_headers_have_a_limit(log_factory: LogFactory, client: LogClient) -> None:
    longest: Headers = (("é", b"x" * (HEADERS_BYTES - 2)),)
    longer: Headers = (*longest, ("a", b""))
    client.append("requests", b"pool", b"v" * 999_000, partition=0, headers=longest)
    with pytest.raises(ValueError, match="headers"):
        client.append_many(
            [Incoming("requests", b"k", b"v", 0), Incoming("requests", b"k", b"v", 0, None, longer)]
        )
    assert [record.headers for record in client.read("requests", 0)] == [longest]
    log = log_factory.service().owning().log
    with pytest.raises(ValueError, match="headers"):
        log.commit([Outgoing("assignments", 0, b"k", b"v", longer)], {}, {})
    log.commit([Outgoing("assignments", 0, b"k", b"v" * 999_000, longest)], {}, {})
    assert [record.headers for record in client.read("assignments", 0)] == [longest]
