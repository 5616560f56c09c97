"""Clients that log in with a token, which is replaced again and again while they run."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fair_allocator.errors import LogUnavailable
from fair_allocator.log import Incoming
from fair_allocator.log.kafka import (
    CLIENTS,
    OAUTHBEARER,
    KafkaClient,
    KafkaLog,
    OAuth,
    Security,
    driver,
)
from fair_allocator.service import Service, ServiceSettings
from fair_allocator.shard import ShardSettings
from tests.kafka.test_security import (
    BRIEF_SECONDS,
    HUNG_UP,
    USUAL_SECONDS,
    commanded,
    configured,
)
from tests.support.broker.choice import private_broker
from tests.support.broker.java import JavaBroker
from tests.support.kafka_logs import OnKafka, await_ends, fresh_settings, make_topics
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port
from tests.support.token_server import CLIENT, SCOPE, SECRET, TokenServer, token_server, unsigned

LIFE_SECONDS = 4.0
REFRESHES = 2
PATIENCE_SECONDS = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("client", CLIENTS)]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    """A broker that asks for tokens on one of its ports."""
    with private_broker(tmp_path_factory.mktemp("oauth"), oauth=True) as broker:
        yield broker


WITH_TOKENS = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": OAUTHBEARER}


def oauth(server: TokenServer) -> dict[str, str]:
    """Return settings that ask an endpoint."""
    return {
        **WITH_TOKENS,
        "oauth_token_url": server.url,
        "oauth_client_id": CLIENT,
        "oauth_client_secret": SECRET,
        "oauth_scope": SCOPE,
    }


def sign() -> tuple[str, float]:
    """Stand for the signer of a cloud."""
    return unsigned(300), time.time() + 300


def test_tokens_are_replaced_while_requests_are_served(client: str, asking: JavaBroker) -> None:
    plain = fresh_settings(asking.bootstrap, request_seconds=scaled(8))
    make_topics(plain, 1)
    with token_server(scaled(LIFE_SECONDS)) as server:
        given = OAuth(server.url, CLIENT, SECRET, SCOPE, extensions=(("logicalCluster", "l"),))
        settings = replace(
            plain,
            bootstrap_servers=f"127.0.0.1:{asking.oauth_port}",
            security=Security("SASL_PLAINTEXT", OAUTHBEARER, oauth=given),
        )
        shard = ShardSettings(partitions=1, template={"arms": {"a": "1/2"}})
        log = KafkaLog(driver(client, settings), settings, 1)
        service = Service(log, ServiceSettings(shard=shard, poll_seconds=0.05))
        sent, limit = 0, deadline(PATIENCE_SECONDS)
        with OnKafka("confluent", plain).reader() as outside, closing(log):
            log.open(service)
            before = server.given
            # The connections were made before; each has to show a new token or is cut off.
            while server.given < before + REFRESHES:
                assert time.monotonic() < limit, f"{server.given} tokens"
                outside.append_many([_request(sent)])
                sent += 1
                service.step()
            while any(log.behind().values()) or not service.shards:
                assert time.monotonic() < limit
                service.step()
            service.drain()
        await_ends(plain)
        with OnKafka("confluent", plain).reader() as outside:
            events = [json.loads(r.value or b"{}") for r in outside.read("assignments", 0)]
    answered = Counter(e["request_id"] for e in events if e["type"] == "assignment")
    assert answered == {f"r{number}": 1 for number in range(sent)}


def _request(number: int) -> Incoming:
    event = {"request_id": f"r{number}", "pool": "p"}
    return Incoming("requests", b"p", json.dumps(event).encode())


def test_a_function_of_the_operator_s_gives_tokens(
    client: str, asking: JavaBroker, tmp_path: Path
) -> None:
    own = {**WITH_TOKENS, "oauth_token_source": f"{__name__}:sign"}
    file = configured(tmp_path, client, asking.oauth_port, USUAL_SECONDS, **own)
    code, said = commanded("topics", "--create", file=file)
    assert code == 0, said


def test_a_token_endpoint_that_is_not_there_is_named(client: str) -> None:
    url = f"http://127.0.0.1:{free_port()}/token"
    expected = f"no connection to Kafka at nowhere:1 .the token endpoint {url} cannot be reached"
    with pytest.raises(LogUnavailable, match=expected):
        _open(client, OAuth(url, CLIENT, SECRET, SCOPE))


def test_a_wrong_secret_is_named_and_not_shown(client: str) -> None:
    wrong = "not-the-secret"
    with token_server(60.0) as server, pytest.raises(LogUnavailable) as refused:
        _open(client, OAuth(server.url, CLIENT, wrong, SCOPE))
    said = str(refused.value)
    assert "refuses client 'allocator' (401 invalid_client: who is this?)" in said
    assert "check kafka.oauth_client_id, kafka.oauth_client_secret" in said
    assert wrong not in said


def _open(client: str, given: OAuth) -> None:
    security = Security("SASL_PLAINTEXT", OAUTHBEARER, oauth=given)
    settings = fresh_settings("nowhere:1", security=security)
    KafkaClient(driver(client, settings), settings).close()


def test_a_token_that_the_broker_refuses_is_told(
    client: str, asking: JavaBroker, tmp_path: Path
) -> None:
    with token_server(60.0, real_life=-3600.0) as server:
        file = configured(tmp_path, client, asking.oauth_port, BRIEF_SECONDS, **oauth(server))
        code, said = commanded("run", file=file)
    assert code == 69, said
    # kafka-python may not hear what a broker says before it hangs up.
    told = ("invalid_token", "Authentication failed", HUNG_UP)
    assert any(text in said for text in (told if client == "kafka" else told[:1])), said
    assert "whether the broker accepts the tokens" in said
    assert SECRET not in said
