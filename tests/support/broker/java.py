"""A broker of our own: Apache Kafka's jars, one node, on free ports of this machine."""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.support.broker import evidence
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port
from tests.support.signals import kill, resume, suspend

POM: Final = Path(__file__).with_name("pom.xml")
START_SECONDS: Final = 90.0
MAVEN_SECONDS: Final = 300.0
CLUSTER: Final = "ZmFpci1hbGxvY2F0b3IwMQ"

SETTINGS: Final = """\
process.roles={roles}
node.id={node}
listeners={served}
advertised.listeners={told}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINK:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,OAUTH:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.sasl.scram-sha-512.sasl.jaas.config={scram} required;
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=2
num.io.threads=4
"""
"""Small, and quick to notice the dead: what takes minutes in production takes seconds here."""

TLS: Final = """
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={certificate}
listener.name.both.ssl.keystore.type=PEM
listener.name.both.ssl.keystore.location={certificate}
listener.name.both.ssl.truststore.type=PEM
listener.name.both.ssl.truststore.location={trusted}
listener.name.both.ssl.client.auth=required
listener.name.both.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.both.scram-sha-256.sasl.jaas.config={scram} required;
"""
"""TLS alone; and with a password and a certificate of the client's own, which is the broker's."""

OAUTH: Final = """
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={oauth} required unsecuredLoginStringClaim_sub="b";
listener.name.oauth.oauthbearer.connections.max.reauth.ms=60000
"""
"""Tokens without a signature, by which a client has to log in again before they expire."""

LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


FOR_TESTS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Half the work while it warms up, which a test always is."""

FOR_LONG: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Much as Kafka's own script starts it."""

USER: Final = "ann"
PASSWORD: Final = "open-sesame"
"""Who may come in by the listener that asks for a password."""

_MODULES: Final = "org.apache.kafka.common.security"
SCRAM: Final = f"{_MODULES}.scram.ScramLoginModule"


SCRAM_SINCE: Final = (3, 5)
"""The version of Kafka since which users can be made together with a cluster."""


class NoBroker(Exception):
    """There is no way to have a broker here; the message says why."""


def kafka_version() -> str:
    """Return the version of Kafka that the pom asks for."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    return str(ElementTree.parse(POM).findtext(f".//{space}kafka.version"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def libraries(version: str = "") -> Path:
    """Return the folder of a broker's jars."""
    return fetched(POM, "kafka", version or kafka_version())


def fetched(pom: Path, name: str, version: str) -> Path:
    """Return the folder of a pom's jars, fetched once by Maven and kept outside the tree."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fair-allocator" / f"{name}-{version}"
    for program in ("java",) if folder.is_dir() else ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoBroker(f"{program} is not installed (Debian: default-jre-headless, maven)")
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={partial}", f"-Dkafka.version={version}"],
        capture_output=True,
        text=True,
        timeout=scaled(MAVEN_SECONDS),
        check=False,
    )
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise NoBroker(
            f"Maven cannot fetch {name} {version}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    try:
        partial.rename(folder)
    except OSError:  # somebody else was faster
        shutil.rmtree(partial)
    return folder


def for_tests(version: str = "") -> tuple[str, ...]:
    """Return arguments of Java for a broker that lives as long as a test."""
    if version:  # started too seldom to make an archive for
        return FOR_TESTS
    return (*FOR_TESTS, f"-XX:SharedArchiveFile={class_archive()}")


def class_archive() -> Path:
    """Return the file from which Java takes the broker's classes ready to run, made once.

    It lies beside the jars, and halves the work of a start. A Java that cannot use it, because it
    is another than the one that made it, goes on without.
    """
    jars = libraries()
    archive = jars.with_name(f"{jars.name}.jsa")
    with jars.with_name(f"{jars.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            with tempfile.TemporaryDirectory(prefix="kafka-", dir=jars.parent) as folder:
                made = Path(folder, archive.name)
                machine = (*FOR_TESTS, f"-XX:ArchiveClassesAtExit={made}")
                JavaBroker(Path(folder, "broker"), machine=machine).start().shut_down()
                made.rename(archive)
    return archive


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


class JavaBroker:
    """One broker process; its data and its ports outlive it, so that it can be started again.

    By default it is a cluster of its own. As one of several it is given its `node` number, and
    the controllers' ports by the number of their node; a node without such a port is a broker only.
    `machine` are arguments of its Java; by default, those of `for_tests`. Clients that come by a
    link are told to come by it again, at the port `linked`.
    """

    def __init__(
        self,
        folder: Path,
        settings: str = "",
        machine: Sequence[str] = (),
        certificate: Path | None = None,
        node: int = 1,
        controllers: Mapping[int, int] | None = None,
        *,
        linked: int = 0,
        oauth: bool = False,
        version: str = "",
    ) -> None:
        self._libraries = libraries(version)
        self._has_scram = not version or _numbers(version) >= SCRAM_SINCE
        self._folder = folder
        self._machine = machine or for_tests(version)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / "broker.log"
        evidence.outputs[self.output] = None
        self._properties = folder / "server.properties"
        self.sasl_port = free_port()
        self.tls_port = free_port()
        self.both_port = free_port()
        self.oauth_port = free_port()
        self.link_port = free_port()
        listeners = {"PLAINTEXT": self.port, "SASL": self.sasl_port}
        if certificate is not None:
            listeners |= {"TLS": self.tls_port, "BOTH": self.both_port}
            settings += TLS.format(
                certificate=certificate,
                trusted=certificate.with_suffix(".crt"),
                scram=SCRAM,
            )
        if oauth:
            listeners["OAUTH"] = self.oauth_port
            settings += OAUTH.format(oauth=f"{_MODULES}.oauthbearer.OAuthBearerLoginModule")
        told = dict(listeners)
        if linked:
            listeners["LINK"], told["LINK"] = self.link_port, linked
        controllers = controllers or {node: free_port()}
        if node in controllers:
            listeners["CONTROLLER"] = controllers[node]
        self._properties.write_text(
            SETTINGS.format(
                node=node,
                roles="broker,controller" if node in controllers else "broker",
                voters=",".join(f"{id}@127.0.0.1:{port}" for id, port in controllers.items()),
                served=_addresses(listeners),
                told=_addresses(told),
                data=folder / "data",
                user=USER,
                password=PASSWORD,
                plain=f"{_MODULES}.plain.PlainLoginModule",
                scram=SCRAM,
            )
            + settings
        )
        (folder / "log4j2.properties").write_text(LOGGING)

    def start(self) -> "JavaBroker":
        """Start it, on what it left behind, and wait until it serves."""
        if not (self._folder / "data").exists():
            self._format()
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._await_serving(self._process)
        return self

    def _java(self, *arguments: str) -> list[str]:
        return [
            "java",
            *self._machine,
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            "-cp",
            f"{self._libraries}/*",
            *arguments,
        ]

    def _format(self) -> None:
        users = [f"SCRAM-SHA-{n}=[name={USER},password={PASSWORD}]" for n in (256, 512)]
        subprocess.run(
            self._java(
                "kafka.tools.StorageTool",
                *("format", "-t", CLUSTER, "-c", str(self._properties)),
                *(word for user in users if self._has_scram for word in ("--add-scram", user)),
            ),
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=scaled(START_SECONDS),
        )

    def _await_serving(self, process: subprocess.Popen[bytes]) -> None:
        limit = deadline(START_SECONDS)
        while process.poll() is None and time.monotonic() < limit:
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"the broker does not serve: {self.output.read_text()[-3000:]}")

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The broker's Java, which was started."""
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended, suspended or not."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it as a power loss would, without a word."""
        if self._process is not None:
            kill(self._process)

    def shut_down(self) -> None:
        """End it as an operator would: it finishes what it does first."""
        self.process.terminate()
        self.process.wait(timeout=scaled(START_SECONDS))

    def suspend(self) -> None:
        """Let it hang: connections stay open and nobody answers."""
        suspend(self.process)

    def resume(self) -> None:
        """Let a suspended broker go on."""
        resume(self.process)

    def stop(self) -> None:
        """End it, and throw its data away."""
        self.kill()
        shutil.rmtree(self._folder / "data", ignore_errors=True)
