"""A password over TLS to a broker that wants to see a certificate as well."""

from pathlib import Path

import pytest

from fair_allocator.log.kafka import CLIENTS
from tests.kafka.test_security import (
    BRIEF_SECONDS,
    USUAL_SECONDS,
    certificate,
    commanded,
    configured,
    guarded,
)
from tests.support.broker.java import PASSWORD, USER, JavaBroker

__all__ = ["certificate", "guarded"]

pytestmark = pytest.mark.parametrize("client", CLIENTS)


def asked(
    folder: Path,
    client: str,
    broker: JavaBroker,
    certificate: Path,
    patience: float = BRIEF_SECONDS,
    **more: str,
) -> tuple[int, str]:
    kafka = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": USER,
        "tls_ca_file": str(certificate.with_suffix(".crt")),
        "tls_certificate_file": str(certificate.with_suffix(".crt")),
        "tls_key_file": str(certificate.with_suffix(".key")),
    }
    file = configured(folder, client, broker.both_port, patience, **(kafka | more))
    return commanded("topics", "--create", file=file, password=PASSWORD)


def test_a_certificate_and_a_password_come_in(
    client: str, guarded: JavaBroker, certificate: Path, tmp_path: Path
) -> None:
    code, said = asked(tmp_path, client, guarded, certificate, USUAL_SECONDS)
    assert code == 0, said


def test_a_password_alone_does_not(
    client: str, guarded: JavaBroker, certificate: Path, tmp_path: Path
) -> None:
    none = {"tls_certificate_file": "", "tls_key_file": ""}
    code, said = asked(tmp_path, client, guarded, certificate, BRIEF_SECONDS, **none)
    assert code == 69
    assert "no connection to Kafka" in said


def test_a_mechanism_that_the_broker_does_not_know_is_told(
    client: str, guarded: JavaBroker, certificate: Path, tmp_path: Path
) -> None:
    code, said = asked(tmp_path, client, guarded, certificate, sasl_mechanism="PLAIN")
    assert code == 69
    assert "mechanism" in said
    if client == "confluent":
        assert "SCRAM-SHA-256" in said
