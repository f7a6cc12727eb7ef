"""Apache Kafka's own Connect workers, as published, on three nodes of Penstock.

Two of them share a file source and a file sink, made and watched with `penstock connect`; the one that runs the source
is killed, then a node of the cluster is. All lines arrive, in order; those that the source had not committed may come
twice.
"""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.hand_in_hand.node import HEAP, HandError, penstock, wait_until
from bench.load import create_topic
from bench.versus.maven import Artifact, fetch, java
from penstock.testing import Cluster

WORKER: Final = (
    Artifact("org.apache.kafka", "connect-runtime", "4.1.1"),
    Artifact("org.apache.kafka", "connect-file", "4.1.1"),
)
CLASS: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
LINES: Final = 20_000
"""Written in each of three parts: before, and after each death."""
SETTINGS: Final = {
    "group.id": "java-workers",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "offset.flush.interval.ms": "1000",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


class JavaWorker:
    """A worker in a process of its own."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.place = f"127.0.0.1:{port}"
        self._output = folder / f"{name}.out"
        reach = {"bootstrap.servers": bootstrap, "listeners": self.url, "rest.advertised.host.name": "127.0.0.1"}
        properties = folder / f"{name}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in (SETTINGS | reach).items()))
        jars = os.pathsep.join(str(jar) for jar in fetch("connect", WORKER))
        with self._output.open("ab") as output:
            command = [java(), *HEAP, "-cp", jars, CLASS, str(properties)]
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def connect(self, *words: str) -> str:
        """What `penstock connect` prints when this worker is asked. Raises HandError if it fails."""
        if self._process.poll() is not None:
            raise HandError(f"a worker has ended by itself: {self._output.read_text(errors='replace')[-2000:]}")
        command = [*penstock(), "connect", "--worker", self.url, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise HandError(f"connect {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            self.connect("list")
        except HandError:
            return False
        return True

    def where(self, connector: str) -> str:
        """The place of the worker that runs the connector's only task, "" while none does."""
        try:
            status: dict[str, Any] = json.loads(self.connect("status", "--json", connector))
        except HandError:  # A worker that rebalances says so with 409.
            return ""
        tasks = status["tasks"]
        return str(tasks[0]["worker_id"]) if tasks and tasks[0]["state"] == "RUNNING" else ""


def run_java_workers(folder: Path, say: Callable[[str], None]) -> None:
    """See the module. Raises HandError."""
    source, sink = folder / "in.txt", folder / "out.txt"
    with Cluster(nodes=3, process=True) as cluster:
        create_topic(cluster.bootstrap_servers, "lines", replicas=3)
        workers = [JavaWorker(folder, f"worker-{number}", cluster.bootstrap_servers) for number in (1, 2)]
        try:
            for worker in workers:
                wait_until("the worker answers", worker.is_up, [])
            _write(source, 0)
            _make(workers[0], folder, "source", f"FileStreamSource\nfile={source}\ntopic=lines")
            _make(workers[0], folder, "sink", f"FileStreamSink\nfile={sink}\ntopics=lines")
            _expect(sink, 1, say)
            wait_until("the source runs somewhere", lambda: bool(workers[0].where("source")), [])
            place = workers[0].where("source")
            victim = next(worker for worker in workers if worker.place == place)
            (left,) = (worker for worker in workers if worker is not victim)
            victim.kill()
            _write(source, 1)
            wait_until("both run on the other worker", lambda: _places(left) == {left.place}, [])
            _expect(sink, 2, say)
            cluster.kill(1)
            _write(source, 2)
            _expect(sink, 3, say)
            say(left.connect("list").strip())
        finally:
            for worker in workers:
                worker.kill()


def _places(worker: JavaWorker) -> set[str]:
    return {worker.where(name) for name in ("source", "sink")}


def _make(worker: JavaWorker, folder: Path, name: str, rest: str) -> None:
    file = folder / f"{name}.properties"
    file.write_text(f"name={name}\ntasks.max=1\nconnector.class={rest}\n")
    worker.connect("create", str(file))


def _write(source: Path, part: int) -> None:
    with source.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(part * LINES, (part + 1) * LINES))


def _expect(sink: Path, parts: int, say: Callable[[str], None]) -> None:
    """Raises HandError if not all lines of so many parts come, or they come in another order."""
    wanted = [f"line {number}" for number in range(parts * LINES)]

    def found() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    wait_until(f"{len(wanted)} lines arrive", lambda: len(set(found())) >= len(wanted), [], limit_s=180)
    lines = found()
    if list(dict.fromkeys(lines)) != wanted:
        raise HandError(f"the lines in {sink} are not those that were written, in their order")
    say(f"{len(wanted)} lines arrived, {len(lines) - len(wanted)} of them twice")
