"""Apache Kafka as its own scripts start it: one node, KRaft combined mode, its own defaults.

What differs from the defaults: directories, ports, replication factors of one (a single node can have no other).
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.process import free_port
from bench.versus.maven import Artifact, fetch, java

KAFKA_VERSION = "4.4.0"
BROKER = (
    # Only the command line tools need kafka-tools-api.
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, without=("org.apache.kafka:kafka-tools-api",)),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
)
SPARK_CONNECTOR_VERSION = "4.2.0"
SPARK_CONNECTOR = (
    # The newest that could be had with all it needs; it runs on Spark 4.3. Each without what Spark has already.
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_CONNECTOR_VERSION, without=("*:*",)),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", without=("*:*",)),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.1", without=("*:*",)),
    Artifact("org.apache.commons", "commons-pool2", "2.12.1", without=("*:*",)),
)
HEAP = ("-Xmx1G", "-Xms1G")
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""What Kafka's scripts set for a server."""
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def kafka_command(
    directory: Path, port: int, settings: Mapping[str, str], cluster_id: str = ""
) -> tuple[Sequence[str], None]:
    """How the broker is started; a directory that is new is formatted first, which is not part of its boot time."""
    controller_port = free_port(besides=port)
    values = {
        **SINGLE_NODE,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(directory / "data"),
        **settings,
    }
    properties = directory / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    class_path = ["-cp", ":".join(str(jar) for jar in fetch("kafka", BROKER))]
    if not (directory / "data").exists():
        cluster_id = cluster_id or new_cluster_id()
        tool = [
            java(),
            *class_path,
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "-c",
            str(properties),
        ]
        done = subprocess.run(tool, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage tool failed: {done.stdout}{done.stderr}")
    return [java(), *HEAP, *JVM_OPTIONS, *class_path, "kafka.Kafka", str(properties)], None


def new_cluster_id() -> str:
    """Any id."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
