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
from fair_allocator.wiring import service_settings
from fair_allocator.wiring.kafka import kafka_settings
from tests.support.broker.choice import private_broker
from tests.support.broker.java import PASSWORD, USER, JavaBroker
from tests.support.needs import needs
from tests.support.pace import scaled
from tests.support.ports import free_port

VARIABLE = "FAIR_ALLOCATOR_KAFKA__SASL_PASSWORD"
WRONG = "not-the-password"
PLAIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER}
SCRAM = PLAIN | {"sasl_mechanism": "SCRAM-SHA-512"}

BRIEF_SECONDS = 3.0
USUAL_SECONDS = 20.0
"""How long a request may take that is to fail, and one that is to succeed."""

HUNG_UP = "socket disconnected"
SAID = {
    "wrong password": ({HUNG_UP, "Authentication failed"}, "Authentication failed"),
    "wrong mechanism": ({HUNG_UP, "UnsupportedSaslMechanism"}, "Unsupported SASL mechanism"),
    "dead port": ({"ECONNREFUSED"}, "Connection refused"),
    "untrusted": ({"certificate verify failed"}, "certificate verify failed"),
    "TLS to a port without": ({"UNEXPECTED_EOF"}, "SSL connection closed by peer"),
    "a password to a port without": ({"IllegalSaslState"}, "not valid in current SASL state"),
    "no TLS to a port of TLS": ({HUNG_UP, "Invalid frame length"}, "_TIMED_OUT"),
    "no password to a port that asks": ({HUNG_UP}, "_TIMED_OUT"),
}
"""By what each of CLIENTS tells why there is no connection; kafka-python may not hear what a broker
says before it hangs up."""


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
        timeout=scaled(60),
    )
    file.write_text(file.with_suffix(".key").read_text() + file.with_suffix(".crt").read_text())
    return file


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[JavaBroker]:
    with private_broker(tmp_path_factory.mktemp("guarded"), certificate=certificate) as broker:
        yield broker


def configured(
    folder: Path, client: str, port: int, patience: float = BRIEF_SECONDS, **kafka: object
) -> Path:
    """Write a configuration; `patience` is how long, to be scaled, a request may take."""
    file = folder / "fair-allocator.toml"
    lines = [f"{key} = {value!r}" for key, value in kafka.items()]
    file.write_text(
        f'[log]\nkind = "{client}"\n[kafka]\nbootstrap_servers = "127.0.0.1:{port}"\n'
        f'topic_prefix = "{client}-{kafka.get("sasl_mechanism")}."\n'
        f"request_seconds = {scaled(patience)}\ntransaction_seconds = {scaled(3)}\n"
        + "\n".join(lines)
        + '\n[observe]\nport = "none"\n'
        "[service]\ngive_up_seconds = 0\n"
    )
    return file


def commanded(*command: str, file: Path, password: str = "") -> tuple[int, str]:
    """Run a command in a process of its own, for the clients leak what they could not open."""
    done = subprocess.run(
        [sys.executable, "-m", "fair_allocator", *command, "--config", str(file)],
        env=os.environ | ({VARIABLE: password} if password else {}),
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("sasl", [PLAIN, SCRAM], ids=["PLAIN", "SCRAM"])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_right_password_comes_in(
    client: str, sasl: dict[str, str], guarded: JavaBroker, tmp_path: Path
) -> None:
    file = configured(tmp_path, client, guarded.sasl_port, USUAL_SECONDS, **sasl)
    assert commanded("topics", "--create", file=file, password=PASSWORD)[0] == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_is_believed_by_the_authority_that_is_trusted(
    client: str, guarded: JavaBroker, certificate: Path, tmp_path: Path
) -> None:
    trusted = str(certificate.with_suffix(".crt"))
    tls = {"security_protocol": "SSL", "tls_ca_file": trusted}
    file = configured(tmp_path, client, guarded.tls_port, USUAL_SECONDS, **tls)
    assert commanded("topics", "--create", file=file)[0] == 0


@pytest.mark.parametrize(
    ("cause", "port", "settings"),
    [
        ("wrong password", "sasl_port", PLAIN),
        ("wrong password", "sasl_port", SCRAM),
        ("wrong mechanism", "sasl_port", PLAIN | {"sasl_mechanism": "SCRAM-SHA-256"}),
        ("dead port", None, PLAIN),
        ("untrusted", "tls_port", {"security_protocol": "SSL"}),
        ("TLS to a port without", "port", {"security_protocol": "SSL"}),
        ("a password to a port without", "port", PLAIN),
        ("no TLS to a port of TLS", "tls_port", {}),
        ("no password to a port that asks", "sasl_port", {}),
    ],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_one_is_told_why_there_is_no_connection_and_no_password(
    client: str,
    cause: str,
    port: str | None,
    settings: dict[str, str],
    guarded: JavaBroker,
    tmp_path: Path,
) -> None:
    number = free_port() if port is None else getattr(guarded, port)
    file = configured(tmp_path, client, number, BRIEF_SECONDS, **settings)
    code, said = commanded("run", file=file, password=WRONG)
    assert code == 69
    accepted = _said(cause, client)
    found = {text for each in SAID for text in _said(each, client) if text in said}
    assert found, said
    assert found <= accepted
    assert f"no connection to Kafka at 127.0.0.1:{number}" in said
    assert "check the address and port" in said
    assert WRONG not in said


def _said(cause: str, client: str) -> set[str]:
    by_kafka_python, by_confluent = SAID[cause]
    return by_kafka_python if client == "kafka" else {by_confluent}


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    kafka = {"security_protocol": "SASL_SSL", "sasl_username": "u"}
    kafka["sasl_password_file"] = str(secret)
    configuration = Configuration.model_validate({"kafka": kafka})
    settings = kafka_settings(configuration)
    assert settings.security.password == PASSWORD
    assert PASSWORD not in f"{settings!r}{settings}{configuration!r}"


def test_a_password_given_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        'kafka.security_protocol = "SASL_SSL"\n'
        'kafka.sasl_username = "u"\n'
        'kafka.sasl_password_file = "somewhere"\n'
    )
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
