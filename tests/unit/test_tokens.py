"""When a token is fetched, what happens if that fails, and whose functions may give tokens."""

import sys
import time
from pathlib import Path

import pytest

from fair_allocator.config import Configuration, load
from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka import OAUTHBEARER, OAuth
from fair_allocator.log.kafka.driver import Unreachable
from fair_allocator.log.kafka.tokens import RETRY_SECONDS, Token, Tokens, tokens_of
from fair_allocator.wiring.kafka import kafka_settings
from tests.support.token_server import CLIENT, SCOPE, SECRET, token_server

LIFE = 100.0
TOKENS = {"security_protocol": "SASL_SSL", "sasl_mechanism": OAUTHBEARER}
ENDPOINT = {"oauth_token_url": "https://idp.example/token", "oauth_client_id": CLIENT}


class Endpoint:
    """Gives numbered tokens by a clock of its own, and fails when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.given = 0
        self.asked = 0
        self.fails = False
        self.tokens = Tokens(self.fetch, wall=lambda: self.now)

    def fetch(self) -> Token:
        self.asked += 1
        if self.fails:
            raise Unreachable("the token endpoint is away")
        self.given += 1
        return Token(f"t{self.given}", self.now + LIFE)

    def at(self, seconds: float) -> str:
        """Return the token that is in use so long after the start."""
        self.now = 1_000.0 + seconds
        return self.tokens.current().text


def test_a_token_is_shared_and_replaced_before_the_clients_ask() -> None:
    endpoint = Endpoint()
    used = [endpoint.at(seconds) for seconds in (0, 69, 70, 139, 140)]
    assert used == ["t1", "t1", "t2", "t2", "t3"]
    assert endpoint.asked == 3


def test_a_token_is_used_while_it_is_valid_and_the_endpoint_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = Endpoint()
    endpoint.at(0)
    endpoint.fails = True
    assert endpoint.at(80) == "t1"
    assert "is away; the last token is valid for another 20 s" in caplog.text
    assert endpoint.at(80 + RETRY_SECONDS / 2) == "t1"
    assert endpoint.asked == 2, "not asked again at once"
    with pytest.raises(Unreachable, match="is away"):
        endpoint.at(100)
    endpoint.fails = False
    assert endpoint.at(101) == "t2"


def test_an_endpoint_that_cannot_answer_is_named() -> None:
    with token_server(LIFE) as server:
        tokens = tokens_of(OAuth(server.url, CLIENT, SECRET, SCOPE))
        server.broken = True
        with pytest.raises(Unreachable, match=f"{server.url} answers 503 without access_token"):
            tokens.current()
        server.broken = False
        assert abs(tokens.current().expires_at - time.time() - LIFE) < LIFE / 2


def own(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> Tokens:
    """Return the tokens of a function of one's own."""
    (folder / "own_signer.py").write_text(f"import time\ndef sign():\n    {body}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "own_signer", raising=False)
    return tokens_of(OAuth(token_source="own_signer:sign"))


@pytest.mark.parametrize(
    ("body", "error", "expected"),
    [
        ("raise OSError('no role')", Unreachable, "own_signer:sign' failed: OSError: no role"),
        ("return 'text'", ConfigurationError, "must return the token, and when it expires"),
        ("return 't', 1000 * time.time()", ConfigurationError, "seconds since 1970, not milli"),
    ],
)
def test_a_function_that_gives_no_token_is_named(
    body: str,
    error: type[Exception],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=expected):
        own(monkeypatch, tmp_path, body).current()


@pytest.mark.parametrize("source", ["no_such_module:sign", "json:no_such_function"])
def test_a_function_that_is_not_there_is_named(source: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{source}' cannot be loaded"):
        tokens_of(OAuth(token_source=source))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "oauth_token_url or oauth_token_source, not both"),
        (ENDPOINT | {"oauth_token_source": "a:b"}, "not both"),
        ({"oauth_token_url": "https://idp.example/token"}, "needs oauth_client_id"),
        (ENDPOINT | {"oauth_token_url": "http://idp.example/token"}, "must be https"),
        (ENDPOINT | {"oauth_token_url": "https://a:hidden@idp.example/"}, "no user name"),
        (ENDPOINT | {"oauth_token_url": "idp.example"}, "must be https://host/path"),
        ({"oauth_token_source": "signer"}, "must be module:function"),
    ],
)
def test_settings_that_give_no_tokens_are_refused(
    settings: dict[str, str], expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "fair-allocator.toml"
    lines = (f"kafka.{key} = {value!r}\n" for key, value in (TOKENS | settings).items())
    file.write_text("".join(lines))
    with pytest.raises(ConfigurationError, match=expected) as refused:
        load(file, {})
    assert "hidden" not in str(refused.value)


def test_a_secret_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    given = TOKENS | ENDPOINT
    with pytest.raises(ConfigurationError, match="needs a secret: give it in FAIR_ALLOCATOR_KAFKA"):
        kafka_settings(Configuration.model_validate({"kafka": given}))
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    given |= {"oauth_client_secret_file": str(file)}
    settings = kafka_settings(Configuration.model_validate({"kafka": given}))
    assert settings.security.oauth.client_secret == SECRET
    assert SECRET not in f"{settings!r}{settings}"
