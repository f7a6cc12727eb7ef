"""Apache Kafka as its own scripts start it: one node, KRaft combined mode, its own defaults.

What differs from the defaults: directories, ports, replication factors of one (a single node can have no other).
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.process import free_ports
from bench.versus.maven import Artifact, java_command
from penstock.testing.layout import replica_settings

KAFKA_VERSION = "4.4.0"
LOGGING = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5")
BROKER = (
    # Only the command line tools need kafka-tools-api.
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, without=("org.apache.kafka:kafka-tools-api",)),
    LOGGING,
)
SPARK_CONNECTOR_VERSION = "4.2.0"
SPARK_CONNECTOR = (
    # The newest that could be had with all it needs; it runs on Spark 4.3. Each without what Spark has already.
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_CONNECTOR_VERSION, without=("*:*",)),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", without=("*:*",)),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.1", without=("*:*",)),
    Artifact("org.apache.commons", "commons-pool2", "2.12.1", without=("*:*",)),
)
JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""What Kafka's scripts set for a server."""


def server_settings(
    node_id: int, data: Path, port: int | None, controller_port: int | None, controllers: Mapping[int, int]
) -> dict[str, str]:
    """What says who a node is, where it listens, and which controllers there are, on which ports."""
    listeners = {"PLAINTEXT": port, "CONTROLLER": controller_port}
    roles = {"broker": port, "controller": controller_port}
    return {
        "process.roles": ",".join(role for role, at in roles.items() if at),
        "node.id": str(node_id),
        "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in listeners.items() if at),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{at}" for node, at in controllers.items()),
        "log.dirs": str(data),
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A file as both systems read it."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def kafka_class(name: str, *options: str) -> list[str]:
    """A class of Apache Kafka as a command. Raises MissingToolError where Java or Maven are missing."""
    return java_command("kafka", BROKER, name, *options)


def kafka_command(
    directory: Path, port: int, settings: Mapping[str, str], cluster_id: str = ""
) -> tuple[Sequence[str], None]:
    """How the broker is started; a directory that is new is formatted first, which is not part of its boot time."""
    (controller,) = free_ports(1, {port})
    alone = server_settings(1, directory / "data", port, controller, {1: controller}) | replica_settings(1)
    properties = write_properties(directory / "server.properties", alone | dict(settings))
    if not (directory / "data").exists():
        words = ["format", f"--cluster-id={cluster_id or new_cluster_id()}", "-c", str(properties)]
        done = subprocess.run([*kafka_class("kafka.tools.StorageTool"), *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage tool failed: {done.stdout}{done.stderr}")
    return [*kafka_class("kafka.Kafka", *JVM_OPTIONS), str(properties)], None


def new_cluster_id() -> str:
    """Any id."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
