"""From the configuration to the server: tokens and certificate by their files."""

import ssl
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from pydantic import ValidationError

from fair_allocator.cli import main
from fair_allocator.config import Configuration, ObserveSection
from fair_allocator.errors import ConfigurationError
from fair_allocator.observe.observer import Observer
from fair_allocator.serving import observed, observed_aside
from tests.support.pace import scaled
from tests.web.test_tls import certificate


def configured(**settings: object) -> Configuration:
    return Configuration(observe=ObserveSection.model_validate({"port": 0, **settings}))


def status(url: str, token: str, context: ssl.SSLContext | None = None) -> int:
    request = Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urlopen(request, timeout=scaled(30), context=context) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def test_both_kinds_of_tokens_may_read(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("a read one\nb ask two\n")
    file.chmod(0o600)
    configuration = configured(tokens_file=str(file), token="three")
    with observed(configuration, Observer()) as url:
        found = [status(f"{url}metrics", token) for token in ("one", "two", "three", "four")]
    assert found == [200, 403, 200, 401]


def test_everything_is_served_by_https(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "server")
    configuration = configured(tls_certificate_file=str(file), tls_key_file=str(key))
    with observed(configuration, Observer()) as url:
        assert url is not None
        assert url.startswith("https://")
        assert status(f"{url}livez", "", ssl.create_default_context(cafile=str(file))) == 200


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValidationError, match="give both or none"):
        configured(tls_key_file="key.pem")


@pytest.mark.parametrize("setting", ["tokens_file", "tls_certificate_file"])
def test_files_that_cannot_be_used_are_told_before_anything_runs(
    tmp_path: Path, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {setting: str(tmp_path / "nowhere")}
    if setting == "tls_certificate_file":
        settings["tls_key_file"] = str(tmp_path / "nowhere")
    with (
        pytest.raises(ConfigurationError, match=setting),
        observed_aside(configured(**settings), Observer()),
    ):
        pass
    file = tmp_path / "fair-allocator.toml"
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    file.write_text("\n".join(["[observe]", *lines, ""]))
    assert main(["check-config", "--config", str(file)]) == 78
    assert setting in capsys.readouterr().err
