"""Run Apache Kafka from its jars: one broker on free ports of this machine."""

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
"""Settings with small sizes and short timeouts, so that what takes minutes in production takes
seconds here."""

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
"""Listeners with TLS: one with TLS alone, and one that also asks for a password and a client
certificate (the broker's own)."""

OAUTH: Final = """
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={oauth} required unsecuredLoginStringClaim_sub="b";
listener.name.oauth.oauthbearer.connections.max.reauth.ms=60000
"""
"""A listener for clients with unsigned tokens.

A client has to log in again before its token expires.
"""

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
"""Arguments of Java that halve the processor time while the broker warms up, as it does during a
whole test."""

FOR_LONG: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Arguments of Java almost as in Kafka's own start script."""

USER: Final = "ann"
PASSWORD: Final = "open-sesame"
"""The user and the password for the listener that asks for a password."""

_MODULES: Final = "org.apache.kafka.common.security"
SCRAM: Final = f"{_MODULES}.scram.ScramLoginModule"


SCRAM_SINCE: Final = (3, 5)
"""Since this version of Kafka, users can be made when a cluster is made."""


class NoBroker(Exception):
    """No broker can be started on this machine; the message says why."""


def kafka_version() -> str:
    """Return the version of Kafka in the Maven file (pom)."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    return str(ElementTree.parse(POM).findtext(f".//{space}kafka.version"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def libraries(version: str = "") -> Path:
    """Return the folder with the jars of a broker."""
    return fetched(POM, "kafka", version or kafka_version())


def fetched(pom: Path, name: str, version: str) -> Path:
    """Return the folder with the jars of a Maven file.

    Maven downloads them once. They are kept outside of the source tree.
    """
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
    except OSError:  # another process was faster
        shutil.rmtree(partial)
    return folder


def for_tests(version: str = "") -> tuple[str, ...]:
    """Return the arguments of Java for a broker that runs only during a test."""
    if version:  # an unusual version is started too rarely to make an archive for it
        return FOR_TESTS
    return (*FOR_TESTS, f"-XX:SharedArchiveFile={class_archive()}")


def class_archive() -> Path:
    """Return a file with the broker's classes in the form that Java loads fast. It is made once.

    The file is beside the jars. With it, a start takes half the processor time. If another version
    of Java made the file, Java ignores it.
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
    """A broker process. Its data and ports stay when it ends, so that it can be started again.

    By default it is a cluster of one broker. In a larger cluster it gets its number `node`, and the
    port of each controller by node number. A node that has no such port is not a controller.
    `machine` are arguments for its Java, by default those of `for_tests`. Clients that connect
    through a `Link` are told to use the link's port, `linked`, for further connections.
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
        """Start the broker on the data that it has, and wait until it answers."""
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
        """The process of the broker, which must have been started."""
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended, suspended or not."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill the broker, as a power failure would."""
        if self._process is not None:
            kill(self._process)

    def shut_down(self) -> None:
        """Shut the broker down in order, as an operator would."""
        self.process.terminate()
        self.process.wait(timeout=scaled(START_SECONDS))

    def suspend(self) -> None:
        """Suspend the broker: its connections stay open, but it does not answer."""
        suspend(self.process)

    def resume(self) -> None:
        """Let a suspended broker go on."""
        resume(self.process)

    def stop(self) -> None:
        """End the broker and delete its data."""
        self.kill()
        shutil.rmtree(self._folder / "data", ignore_errors=True)
