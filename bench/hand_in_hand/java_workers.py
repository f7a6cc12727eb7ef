"""Apache Kafka's own Connect workers, as published, on three nodes of Penstock.

Two of them share a file source and a file sink, made and watched with `penstock connect`; the one that runs the source
is killed, then a node of the cluster is. The source writes exactly once: all lines are in the topic, in order and once,
for who reads what is committed. They arrive in the sink, whose last ones may come twice.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.hand_in_hand.node import HEAP, HandError, Say, librdkafka, penstock, wait_until
from bench.process import CommandError, Process, free_ports, said_by
from bench.topics import create_topic, read_all
from bench.versus.kafka import java_command, write_properties
from penstock.testing import Cluster

CLASS: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
TOPIC: Final = "lines"
LINES: Final = 20_000
"""In each of three parts: before, and after each death."""
SETTINGS: Final = Path(__file__).with_name("java_workers.properties").read_text()


OF_CLIENTS: Final = ("", "producer.", "consumer.", "admin.")
"""A worker's own and those of connectors; Connect hands on nothing from the first to the others."""


class JavaWorker(Process):
    def __init__(self, folder: Path, name: str, cluster: Mapping[str, str]) -> None:
        """`cluster` is what a client needs under Kafka's keys."""
        self.place = f"127.0.0.1:{free_ports(1)[0]}"
        settings = {f"{of}{key}": value for of in OF_CLIENTS for key, value in cluster.items()}
        properties = write_properties(folder / f"{name}.properties", settings | {"listeners": f"http://{self.place}"})
        with properties.open("a") as file:
            file.write(SETTINGS)
        super().__init__([*java_command("connect", CLASS, *HEAP), str(properties)], folder / f"{name}.out")

    def connect(self, *words: str) -> str:
        """The output of `penstock connect` with this worker. Raises HandError if it fails."""
        if self.exit_code is not None:
            raise HandError(f"a worker has ended by itself: {self.last_words()}")
        return said_by(penstock("connect", "--worker", f"http://{self.place}", *words))

    def is_up(self) -> bool:
        try:
            self.connect("list")
        except CommandError:
            return False
        return True

    def where(self, connector: str) -> str:
        """The worker of the connector's only task, "" while there is none."""
        try:
            status: dict[str, Any] = json.loads(self.connect("status", "--json", connector))
        except CommandError:  # A worker that rebalances says so with 409.
            return ""
        tasks = status["tasks"]
        return str(tasks[0]["worker_id"]) if tasks and tasks[0]["state"] == "RUNNING" else ""

    def make(self, name: str, kind: str, file: Path, **topics: str) -> None:
        settings = {"name": name, "tasks.max": "1", "connector.class": kind, "file": str(file), **topics}
        self.connect("create", str(write_properties(file.with_name(f"{name}.properties"), settings)))


def run_java_workers(folder: Path, say: Say, *, secure: bool = False) -> None:
    source, sink = folder / "in.txt", folder / "out.txt"
    with Cluster(nodes=3, process=True, secure=secure) as cluster:
        create_topic(librdkafka(cluster), TOPIC, replicas=3)
        workers = [JavaWorker(folder, f"worker-{number}", cluster.client_properties()) for number in (1, 2)]
        try:
            for worker in workers:
                wait_until("the worker answers", worker.is_up)
            _write(source, 0)
            workers[0].make("source", "FileStreamSource", source, topic=TOPIC)
            workers[0].make("sink", "FileStreamSink", sink, topics=TOPIC)
            _expect(cluster, sink, 1, say)
            wait_until("the source runs somewhere", lambda: bool(workers[0].where("source")))
            place = workers[0].where("source")
            left, victim = sorted(workers, key=lambda worker: worker.place == place)
            victim.kill()
            _write(source, 1)
            wait_until(
                "both run on the other worker",
                lambda: {left.where(name) for name in ("source", "sink")} == {left.place},
            )
            _expect(cluster, sink, 2, say)
            cluster.kill(1)
            _write(source, 2)
            _expect(cluster, sink, 3, say)
            say(left.connect("list").strip())
        finally:
            for worker in workers:
                worker.kill()


def _write(source: Path, part: int) -> None:
    with source.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(part * LINES, (part + 1) * LINES))


def _expect(cluster: Cluster, sink: Path, parts: int, say: Say) -> None:
    """Raises HandError unless all lines of so many parts come, in order, and are in the topic once."""
    wanted = [f"line {number}" for number in range(parts * LINES)]

    def found() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    wait_until(f"{len(wanted)} lines arrive", lambda: len(set(found())) >= len(wanted), limit_s=180)
    lines = found()
    if list(dict.fromkeys(lines)) != wanted:
        raise HandError(f"the lines in {sink} are not those that were written, in their order")
    if [value.decode() for _, value in read_all(librdkafka(cluster), TOPIC)] != wanted:
        raise HandError("the lines in the topic are not those that were written, once and in their order")
    say(f"{len(wanted)} lines are in the topic once and have arrived, {len(lines) - len(wanted)} of them twice")
