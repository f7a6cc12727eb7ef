"""A node of either system over one folder: the same `server.properties`, the same directories, another program."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.process import Process, free_ports, said_by
from bench.versus.kafka import kafka_class, server_settings, write_properties
from bench.versus.systems import KAFKA, PENSTOCK
from penstock.testing.layout import replica_settings

CLUSTER_ID: Final = "YkJwr6RESgSJv-sxa1R1mA"
HEAP: Final = ("-Xmx400M", "-Xms64M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Little memory, and a quick start rather than much speed."""
START_LIMIT_S: Final = 600.0
STOP_LIMIT_S: Final = 300.0
PAUSE_S: Final = 0.2
Say = Callable[[str], None]


class HandError(Exception):
    """The text says what went wrong, and where its output is."""


class Node:
    """`system` is the program that runs the node, or did so last."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = Path(settings["log.dirs"])
        self.properties = write_properties(folder / "server.properties", settings)
        self.system = ""
        self._process: Process | None = None
        self._stints = 0

    def format(self, system: str, *options: str) -> None:
        tool = kafka_class("kafka.tools.StorageTool", *HEAP) if system == KAFKA else penstock("storage")
        said_by([*tool, "format", "--cluster-id", CLUSTER_ID, "-c", str(self.properties), *options])

    def start(self, system: str) -> None:
        self.system = system
        self._stints += 1
        program = kafka_class("kafka.Kafka", *HEAP) if system == KAFKA else penstock("start")
        output = self.folder / f"{self._stints:02d}-{system}.out"
        self._process = Process([*program, str(self.properties)], output)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.stop(STOP_LIMIT_S):
            raise HandError(f"{self.system} did not stop within {STOP_LIMIT_S:g} s: {process.last_words()}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def check(self) -> None:
        if self._process is not None and self._process.exit_code is not None:
            raise HandError(f"{self.system} has ended by itself ({self._process.exit_code}): {self.last_words()}")

    def last_words(self, lines: int = 15) -> str:
        return self._process.last_words(lines) if self._process is not None else ""


def single_node(folder: Path, more: Mapping[str, str] | None = None) -> tuple[Node, str]:
    """A broker that is its own quorum, and its address."""
    port, controller_port = free_ports(2)
    settings = {
        **server_settings(1, folder / "data", port, controller_port, {1: controller_port}),
        **replica_settings(1),
        "offsets.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        **(more or {}),
    }
    return Node(folder, settings), f"127.0.0.1:{port}"


def penstock(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("penstock")), *words]


def wait_until(
    what: str, is_so: Callable[[], bool], nodes: Sequence[Node] = (), limit_s: float = START_LIMIT_S
) -> None:
    """Raises HandError if that takes too long, or a node ends."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        for node in nodes:
            node.check()
        if time.monotonic() > deadline:
            words = "".join(f"\n{node.system}:{node.last_words(5)}" for node in nodes)
            raise HandError(f"{what}: not within {limit_s:g} s{words}")
        time.sleep(PAUSE_S)


def other_than(system: str) -> str:
    return PENSTOCK if system == KAFKA else KAFKA
