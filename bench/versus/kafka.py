"""Apache Kafka as its own scripts start it: one node, KRaft combined mode, its own defaults; its jars by Maven.

What differs from the defaults: directories, ports, replication factors of one (a single node can have no other). Jars
are kept in a cache outside the repository.
"""

import base64
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.process import free_ports, said_by
from penstock.metadata.configs.pairs import properties_text
from penstock.testing.layout import replica_settings

OLDEST_JAVA = 17
POMS = Path(__file__).with_name("poms")
"""What to fetch of Maven, by the names of what it runs; the broker's has no command line tools."""


class MissingToolError(Exception):
    """The text says what to install on this machine."""


def fetch(name: str) -> list[Path]:
    """With all dependencies; MissingToolError where Maven is not installed."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "versus" / name
    pom = (POMS / f"{name}.xml").read_text()
    pom_path, jars = folder / "pom.xml", folder / "jars"
    if not (jars.is_dir() and pom_path.exists() and pom_path.read_text() == pom):
        if shutil.which("mvn") is None:
            raise MissingToolError("Maven is missing; it fetches Apache Kafka. Install it, e.g. apt-get install maven")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        draft = folder / "draft.xml"
        draft.write_text(pom)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'draft'}"]
        done = subprocess.run(["mvn", "-B", "-q", "-f", str(draft), *goal], capture_output=True, text=True)
        if done.returncode:
            raise MissingToolError(f"Maven could not fetch {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (folder / "draft").rename(jars)
        draft.rename(pom_path)
    return sorted(jars.glob("*.jar"))


def java_command(name: str, main_class: str, *options: str) -> list[str]:
    return [java(), *options, "-cp", os.pathsep.join(map(str, fetch(name))), main_class]


@cache
def java() -> str:
    """The Java on the path; MissingToolError where there is none that is new enough."""
    found = shutil.which("java")
    if found is not None and java_version() >= OLDEST_JAVA:
        return found
    raise MissingToolError(
        f"Java {OLDEST_JAVA} or newer is missing; it runs Apache Kafka. Install it, "
        "e.g. apt-get install openjdk-17-jre-headless"
    )


@cache
def java_version() -> int:
    """Of the Java on the path; 0 without one."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def version_of(name: str, artifact: str) -> str:
    found = re.search(rf"{re.escape(artifact)}</artifactId><version>([^<]+)", (POMS / f"{name}.xml").read_text())
    return found[1] if found else ""


JVM_OPTIONS = f"@{POMS.with_name('jvm.options')}"
"""Those of Kafka's scripts."""


def server_settings(
    node_id: int, data: Path, port: int | None, controller_port: int | None, controllers: Mapping[int, int]
) -> dict[str, str]:
    """The node's identity, listeners, and controllers by their ports."""
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
    path.write_text(properties_text(settings))
    return path


def kafka_class(name: str, *options: str) -> list[str]:
    """Raises MissingToolError where Java or Maven are missing."""
    return java_command("kafka", name, *options)


def kafka_command(
    directory: Path, port: int, settings: Mapping[str, str], cluster_id: str = ""
) -> tuple[Sequence[str], None]:
    """A new directory is formatted first, which is not part of the boot time."""
    (controller,) = free_ports(1, {port})
    alone = server_settings(1, directory / "data", port, controller, {1: controller}) | replica_settings(1)
    properties = write_properties(directory / "server.properties", alone | dict(settings))
    if not (directory / "data").exists():
        words = ["format", f"--cluster-id={cluster_id or new_cluster_id()}", "-c", str(properties)]
        said_by([*kafka_class("kafka.tools.StorageTool"), *words])
    return [*kafka_class("kafka.Kafka", JVM_OPTIONS), str(properties)], None


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
