"""What a broker that asks for permissions has to grant: what docs/kafka.md says."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.errors import ConfigurationError
from fair_allocator.log import INPUTS, JOURNAL, TOPICS
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, KafkaSettings
from fair_allocator.service import Service
from fair_allocator.wiring import open_client, open_log, service_settings
from fair_allocator.wiring.kafka import kafka_settings
from tests.conformance.conftest import PATIENCE_SECONDS
from tests.kafka.test_commands import configured, rounds, serve
from tests.kafka.test_inputs_gone import stepped
from tests.support.broker.choice import private_broker
from tests.support.broker.java import PASSWORD, USER, JavaBroker
from tests.support.pace import deadline, scaled

pytestmark = pytest.mark.parametrize("client", CLIENTS)

TURNS = 10
"""Of sending and serving: enough for the journal to be trimmed."""

ASKING = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
"""Who comes without a password may do anything; whoever has one, what is granted."""

OUTPUTS = sorted({*TOPICS} - {*INPUTS, JOURNAL})

Grants = Mapping[str, Sequence[str]]

SERVICE: Grants = {
    **dict.fromkeys(INPUTS, ("READ", "DESCRIBE_CONFIGS")),
    **dict.fromkeys(OUTPUTS, ("WRITE", "DESCRIBE_CONFIGS")),
    JOURNAL: ("READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS"),
    "group": ("READ",),
    "transactional id": ("WRITE",),
}
READERS: Grants = {
    **dict.fromkeys(TOPICS, ("READ",)),
    "group": ("DESCRIBE",),
}
MISSING = [
    ("requests", "READ", "exactly_once"),
    ("assignments", "WRITE", "exactly_once"),
    ("assignments", "WRITE", "at_least_once"),
    ("dead-letters", "WRITE", "exactly_once"),
    ("dead-letters", "DESCRIBE_CONFIGS", "exactly_once"),
    (JOURNAL, "READ", "exactly_once"),
    (JOURNAL, "WRITE", "exactly_once"),
    (JOURNAL, "WRITE", "at_least_once"),
    (JOURNAL, "DELETE", "exactly_once"),
    ("group", "READ", "exactly_once"),
    ("transactional id", "WRITE", "exactly_once"),
]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    with private_broker(tmp_path_factory.mktemp("asking"), ASKING) as broker:
        yield broker


@dataclass
class Site:
    """Topics that are served by somebody with few rights, and looked after by one with all."""

    broker: JavaBroker
    folder: Path
    all_rights: Path
    some_rights: Path
    sent: int = 0

    @property
    def settings(self) -> KafkaSettings:
        return kafka_settings(load(self.some_rights, {}))

    def grant(self, grants: Grants) -> None:
        """Grant rights; on topics by our names, and on the group and the writer's id."""
        settings, acls = self.settings, []
        others = {
            "group": (ResourceType.GROUP, settings.group),
            "transactional id": (ResourceType.TRANSACTIONAL_ID, settings.writer),
        }
        for what, operations in grants.items():
            kind, name = others.get(what) or (ResourceType.TOPIC, settings.topics[what])
            resource = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
            acls += [
                ACL(f"User:{USER}", "*", ACLOperation[each], ACLPermissionType.ALLOW, resource)
                for each in operations
            ]
        with closing(KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)) as admin:
            assert not admin.create_acls(acls)["failed"]
            # The broker says yes before it knows of them itself.
            limit = deadline(PATIENCE_SECONDS)
            while not all(admin.describe_acls(acl)[0] for acl in acls):
                assert time.monotonic() < limit, "the rights are not granted"

    def send(self) -> None:
        """Send requests, and a reward that ends as a dead letter."""
        events = self.folder / "events.ndjson"
        numbers = range(self.sent, self.sent + 20)
        asked = [json.dumps({"request_id": f"r{n}", "pool": "p"}) for n in numbers]
        events.write_text("\n".join([*asked, ""]))
        assert self.free("send", "requests", "--ndjson", str(events)) == 0
        assert self.free("send", "reward", "--pool", "nobody", "--id", "r", "--value", "1") == 0
        self.sent += 20

    def send_and_serve(self) -> None:
        configuration = load(self.some_rights, {})
        for turns in (1, TURNS):
            service = Service(open_log(configuration), service_settings(configuration, 1))
            with closing(service.log):
                service.log.open(service)
                for _ in range(turns):
                    self.send()
                    stepped(service, lambda: rounds(service) == self.sent)  # noqa: B023

    def free(self, *arguments: str) -> int:
        return main([*arguments, "--config", str(self.all_rights)])

    def bound(self, *arguments: str) -> int:
        return main([*arguments, "--config", str(self.some_rights)])

    def trimmed(self) -> int:
        """Return how much of the journal was trimmed."""
        with closing(open_client(load(self.all_rights, {}))) as client:
            return client.start_offset(JOURNAL, 0)


@pytest.fixture
def site(client: str, delivery: str, asking: JavaBroker, tmp_path: Path) -> Site:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    free = configured(tmp_path, client, asking.bootstrap, 1, delivery)
    bound = tmp_path / "bound.toml"
    bound.write_text(
        free.read_text()
        .replace(str(asking.port), str(asking.sasl_port))
        .replace(
            "[service]",
            'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "SCRAM-SHA-512"\n'
            f'sasl_username = "{USER}"\nsasl_password_file = "{password}"\n'
            f"request_seconds = {scaled(5)}\n"
            "[snapshots]\nevery_entries = 1\n[service]",
        )
    )
    site = Site(asking, tmp_path, free, bound)
    assert site.free("topics", "--create") == 0
    return site


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_the_service_needs_is_enough(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.grant(SERVICE)
    site.send_and_serve()
    assert site.trimmed() > 0
    assert "restoring after" not in caplog.text
    assert site.bound("topics") == 0


@pytest.mark.parametrize(("what", "operation", "delivery"), MISSING)
def test_what_is_missing_is_told_at_once(site: Site, what: str, operation: str) -> None:
    site.grant({**SERVICE, what: [each for each in SERVICE[what] if each != operation]})
    with pytest.raises(ConfigurationError) as refused:
        site.send_and_serve()
    said = str(refused.value)
    assert f"grant {USER} what docs/kafka.md lists" in said
    assert re.search("AUTHORIZATION_FAILED|AuthorizationFailed|DESCRIBE_CONFIGS", said)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_readers_need_is_enough(
    site: Site, delivery: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site.send()
    serve(site.all_rights, site.sent)
    site.grant(READERS)
    commands = ["audit", "audit --replay", "inspect", "export", "dead-letters list"]
    for command in commands:
        assert site.bound(*command.split()) == 0, capsys.readouterr()
