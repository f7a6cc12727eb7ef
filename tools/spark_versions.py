"""`make spark-versions`: the extra `connector` in Sparks that are not ours, each in a fresh environment from PyPI.

A version is installed as its users have it, then the extra beside it, which must change nothing that was there. Then
the data source works for a program (`spark_trial.py`), as `spark-submit` runs it, through a server of Spark Connect
that is a process of its own, and in a declarative pipeline of Spark's. Prints a table with the seconds of each.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.blocking.offsets import list_offsets
from penstock.client.values import LATEST
from penstock.protocol.address import parse_bootstrap_servers
from penstock.testing import Cluster

PROJECT: Final = Path(__file__).resolve().parents[1]
TRIAL: Final = PROJECT / "tools" / "spark_trial.py"
VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
CONNECT_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
WITHOUT_PIPELINES: Final = "4.0."
LONGEST_S: Final = 600
START_S: Final = 120
ROWS: Final = 1_000
DECLARED: Final = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
servers = {{"kafka.bootstrap.servers": "{servers}"}}
dp.create_sink("out", "penstock", servers | {{"topic": "{topic}-out"}})


@dp.append_flow(target="out")
def copied():
    options = servers | {{"subscribe": "{topic}", "startingOffsets": "earliest"}}
    return spark.readStream.format("penstock").options(**options).load().select("key", "value")
"""
Try = Callable[["Environment", str, str, Path], dict[str, float]]


class Environment:
    """A virtual environment with one version of Spark, and nothing of ours but the extra."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self._bin = folder / version / "bin"
        own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK_"))}
        python = str(self._bin / "python")
        self.variables = own | {
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def make(self) -> str:
        """How long the extra took, and how much it is; nothing that was there may change."""
        subprocess.run([sys.executable, "-m", "venv", str(self._bin.parent)], check=True)
        extra = "connect" if self.version.startswith(WITHOUT_PIPELINES) else "pipelines"
        self._pip("install", "--quiet", f"pyspark[{extra}]=={self.version}", "pandas<3")
        before = set(self._pip("freeze").split())
        size, begin = _size(self._bin.parent), time.monotonic()
        self._pip("install", "--quiet", f"{PROJECT}[connector]")
        took = time.monotonic() - begin
        changed = before - set(self._pip("freeze").split())
        assert not changed, f"Spark {self.version}: the extra has changed {', '.join(sorted(changed))}"
        return f"{took:.0f} s, {(_size(self._bin.parent) - size) / 1e6:.0f} MB"

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        """Its last line; what it said where it fails."""
        done = subprocess.run(
            [self._bin / program, *arguments],
            env=self.variables | variables,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"Spark {self.version}: {program} failed:\n{done.stdout}\n{done.stderr}")
        return (done.stdout.strip().splitlines() or [""])[-1]

    @contextmanager
    def connect_server(self, log: Path) -> Iterator[str]:
        """Its address."""
        port = _free_port()
        settings = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
        given = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = [str(self._bin / "spark-submit"), "--class", CONNECT_SERVER, *given, "spark-internal"]
        with log.open("w") as said, subprocess.Popen(command, env=self.variables, stdout=said, stderr=said) as server:
            try:
                _wait_for(port)
                yield f"sc://127.0.0.1:{port}"
            finally:
                server.terminate()

    def _pip(self, *arguments: str) -> str:
        command = [str(self._bin / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout


def by_python(environment: Environment, servers: str, topic: str, folder: Path) -> dict[str, float]:
    return _seconds(environment.run("python", str(TRIAL), servers, topic, str(folder)))


def by_submit(environment: Environment, servers: str, topic: str, folder: Path) -> dict[str, float]:
    return _seconds(environment.run("spark-submit", str(TRIAL), servers, topic, str(folder)))


def by_connect(environment: Environment, servers: str, topic: str, folder: Path) -> dict[str, float]:
    with environment.connect_server(folder / "connect.log") as address:
        return _seconds(environment.run("python", str(TRIAL), servers, topic, str(folder), SPARK_REMOTE=address))


def declared(environment: Environment, servers: str, topic: str, folder: Path) -> dict[str, float]:
    """Spark's command exits with an error in 4.3.0 although the run is complete (SPARK-59135): rows count."""
    spec = folder / "spark-pipeline.yml"
    libraries = [{"glob": {"include": "declared.py"}}]
    spec.write_text(json.dumps({"name": topic, "storage": (folder / "storage").as_uri(), "libraries": libraries}))
    (folder / "declared.py").write_text(DECLARED.format(servers=servers, topic=topic))
    begin = time.monotonic()
    try:
        environment.run("spark-pipelines", "run", "--spec", str(spec))
    except AssertionError as error:
        if "COMPLETED" not in str(error):
            raise
    assert _records(servers, f"{topic}-out") == ROWS
    return {"all": time.monotonic() - begin}


WAYS: Final[dict[str, Try]] = {
    "a program": by_python,
    "spark-submit": by_submit,
    "Spark Connect": by_connect,
    "spark-pipelines": declared,
}


def tried(environment: Environment, servers: str) -> list[str]:
    """A row of the table."""
    row = [environment.version, environment.make()]
    for number, (way, run) in enumerate(WAYS.items()):
        if run is declared and environment.version.startswith(WITHOUT_PIPELINES):
            row.append("has none")
            continue
        topic = f"t{environment.version}-{number}".replace(".", "-")
        with tempfile.TemporaryDirectory() as folder:
            if run is declared:
                _write(environment, servers, topic)
            seconds = run(environment, servers, topic, Path(folder))
        print(f"Spark {environment.version}, {way}: {seconds}", file=sys.stderr)
        row.append(f"{sum(seconds.values()):.0f} s")
    return row


def _write(environment: Environment, servers: str, topic: str) -> None:
    program = (
        "from pyspark.sql import SparkSession; "
        f"frame = SparkSession.builder.getOrCreate().range({ROWS}).selectExpr('CAST(id AS STRING) AS value'); "
        f"frame.write.format('penstock').mode('append').option('bootstrap.servers', '{servers}')"
        f".option('topic', '{topic}').save()"
    )
    environment.run("python", "-c", program)


def _records(servers: str, topic: str) -> int:
    cluster = BlockingCluster(ClusterSettings(parse_bootstrap_servers(servers)))
    try:
        partitions = [(topic, number) for number in cluster.partitions_of([topic])[topic]]
        return sum(place.offset for place in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).values())
    finally:
        cluster.close()


def _seconds(line: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(line)["seconds"]
    return found


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.suffix != ".pyc")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def main(arguments: Sequence[str]) -> None:
    print(f"| Spark | the extra | {' | '.join(WAYS)} |\n|{' --- |' * (len(WAYS) + 2)}")
    with Cluster() as cluster:
        for version in arguments or VERSIONS:
            with tempfile.TemporaryDirectory() as folder:
                row = tried(Environment(Path(folder), version), cluster.bootstrap_servers)
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
