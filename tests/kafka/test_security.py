"""Who may come in: passwords from variables or files, and what is said when it does not work."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator.config import Configuration, load
from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka import CLIENTS
from fair_allocator.wiring import kafka_settings, service_settings
from tests.broker.choice import private_broker
from tests.broker.java import PASSWORD, USER, JavaBroker, free_port
from tests.needs import needs

VARIABLE = "FAIR_ALLOCATOR_KAFKA__SASL_PASSWORD"
WRONG = "not-the-password"
REFUSED = {"kafka": "user name and password", "confluent": "Authentication failed"}
DEAD = {"kafka": "Unable to bootstrap", "confluent": "Connection refused"}
UNTRUSTED = {"kafka": "kafka.security_protocol", "confluent": "certificate verify failed"}
"""By what each client tells these; kafka-python itself knows no difference."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that vouches for itself, after its key."""
    file = tmp_path_factory.mktemp("certificate") / "broker.pem"
    named = ("-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(file.with_suffix(".key")), "-out", str(file.with_suffix(".crt")))
    subprocess.run(
        [needs("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-noenc", *named, *files],
        check=True,
        capture_output=True,
        timeout=60,
    )
    file.write_text(file.with_suffix(".key").read_text() + file.with_suffix(".crt").read_text())
    return file


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[JavaBroker]:
    with private_broker(tmp_path_factory.mktemp("guarded"), certificate=certificate) as broker:
        yield broker


def configured(folder: Path, client: str, port: int, **kafka: object) -> Path:
    file = folder / "fair-allocator.toml"
    lines = [f"{key} = {value!r}" for key, value in kafka.items()]
    file.write_text(
        f'[log]\nkind = "{client}"\n[kafka]\nbootstrap_servers = "127.0.0.1:{port}"\n'
        f'topic_prefix = "{client}-{kafka.get("sasl_mechanism")}."\nrequest_seconds = 3\n'
        f"transaction_seconds = 3\n" + "\n".join(lines)
    )
    return file


def topics(file: Path, **variables: str) -> tuple[int, str]:
    """Run the command in a process of its own, for the clients leak what they could not open."""
    done = subprocess.run(
        [sys.executable, "-m", "fair_allocator", "topics", "--create", "--config", str(file)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_right_password_comes_in_and_a_wrong_one_is_not_shown(
    client: str, mechanism: str, guarded: JavaBroker, tmp_path: Path
) -> None:
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    file = configured(tmp_path, client, guarded.sasl_port, **sasl, sasl_username=USER)
    assert topics(file, **{VARIABLE: PASSWORD})[0] == 0
    code, said = topics(file, **{VARIABLE: WRONG})
    assert code == 69
    assert REFUSED[client] in said
    assert WRONG not in said


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_is_believed_by_the_authority_that_is_trusted_and_no_other(
    client: str, guarded: JavaBroker, certificate: Path, tmp_path: Path
) -> None:
    trusted = str(certificate.with_suffix(".crt"))
    tls = {"security_protocol": "SSL"}
    file = configured(tmp_path, client, guarded.tls_port, **tls, tls_ca_file=trusted)
    assert topics(file)[0] == 0
    code, said = topics(configured(tmp_path, client, guarded.tls_port, **tls))
    assert code == 69
    assert UNTRUSTED[client] in said


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dead_port_is_told_with_what_to_check(client: str, tmp_path: Path) -> None:
    port = free_port()
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": USER}
    code, said = topics(configured(tmp_path, client, port, **sasl), **{VARIABLE: PASSWORD})
    assert code == 69
    assert DEAD[client] in said
    assert REFUSED["confluent"] not in said
    assert f"no answer from Kafka at 127.0.0.1:{port}" in said
    assert "check the address and port" in said


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    configuration = Configuration.model_validate({"kafka": {"sasl_password_file": str(secret)}})
    settings = kafka_settings(configuration)
    assert settings.security.password == PASSWORD
    assert PASSWORD not in f"{settings!r}{settings}{configuration!r}"


def test_a_password_given_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text('kafka.sasl_password_file = "somewhere"\n')
    with pytest.raises(ConfigurationError, match="give one of them"):
        kafka_settings(load(file, {VARIABLE: PASSWORD}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kafka.security_protocol = "SASL_SSL"', "SASL_SSL needs sasl_username"),
        ("kafka.session_seconds = 200.0", r"must be above session_seconds"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=expected):
        load(file, {})


def test_a_user_without_a_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text('[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_username = "ann"\n')
    with pytest.raises(ConfigurationError, match=r"needs a password.*SASL_PASSWORD"):
        kafka_settings(load(file, {}))
    assert kafka_settings(load(file, {VARIABLE: PASSWORD})).security.password == PASSWORD


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_watchdog_that_would_end_a_wait_for_a_dead_one_s_transaction_is_refused(
    kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "fair-allocator.toml"
    text = '[log]\nkind = "{}"\n[kafka]\ntransaction_seconds = 60\n[service]\nstuck_seconds = {}\n'
    file.write_text(text.format(kind, 74))
    with pytest.raises(ConfigurationError, match=r"stuck_seconds \(74\) must be at least 75"):
        service_settings(load(file, {}), 1)
    file.write_text(text.format(kind, 75))
    service_settings(load(file, {}), 1)


def test_a_name_that_kafka_would_refuse_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text('kafka.group = "a group"')
    with pytest.raises(ConfigurationError, match="a group"):
        kafka_settings(load(file, {}))
