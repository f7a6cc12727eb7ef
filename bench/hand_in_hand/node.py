"""A node of either system over one folder: the same `server.properties`, the same directories, another program."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.versus.kafka import BROKER
from bench.versus.maven import fetch, java

KAFKA: Final = "kafka"
PENSTOCK: Final = "penstock"
HEAP: Final = ("-Xmx400M", "-Xms64M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Little memory, and a quick start rather than much speed."""
START_LIMIT_S: Final = 600.0
STOP_LIMIT_S: Final = 300.0
PAUSE_S: Final = 0.2


class HandError(Exception):
    """Something that should have gone well did not; the text says what, and where its output is."""


class Node:
    """See the module. `system` says which program runs the node, or did so last."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = folder / "data"
        self.properties = folder / "server.properties"
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.system = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._stints = 0

    def format(self, system: str, cluster_id: str, *options: str) -> None:
        """Let the storage tool of a system format the directories."""
        tool = kafka_class("kafka.tools.StorageTool") if system == KAFKA else [*penstock(), "storage"]
        words = [*tool, "format", "--cluster-id", cluster_id, "-c", str(self.properties), *options]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise HandError(f"{system} could not format {self.data}: {done.stdout}{done.stderr}")

    def start(self, system: str) -> None:
        """Run the node with this system's program, and go on at once."""
        self.system = system
        self._stints += 1
        program = [*kafka_class("kafka.Kafka", *HEAP)] if system == KAFKA else [*penstock(), "start"]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen([*program, str(self.properties)], stdout=output, stderr=subprocess.STDOUT)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._end(signal.SIGKILL)

    def check(self) -> None:
        """Raises HandError if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise HandError(f"{self.system} has ended by itself ({self._process.returncode}): {self.last_words()}")

    def last_words(self, lines: int = 15) -> str:
        """The end of what the node wrote in this stint."""
        if not self._output.exists():
            return ""
        return "\n" + "\n".join(self._output.read_text(errors="replace").splitlines()[-lines:])

    @property
    def complaints(self) -> list[str]:
        """Lines of this stint that are errors, but for what Kafka says of a disconnected peer."""
        text = self._output.read_text(errors="replace") if self._output.exists() else ""
        return [line for line in text.splitlines() if " ERROR " in line or line.startswith("ERROR")]

    @property
    def _output(self) -> Path:
        return self.folder / f"{self._stints:02d}-{self.system}.out"

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise HandError(f"{self.system} did not stop within {STOP_LIMIT_S:g} s: {self.last_words()}") from None


def penstock() -> list[str]:
    """The command `penstock` of this environment."""
    return [str(Path(sys.executable).with_name("penstock"))]


def kafka_class(name: str, *options: str) -> list[str]:
    """A class of Apache Kafka as a command. Raises MissingToolError where Java or Maven are missing."""
    jars = os.pathsep.join(str(jar) for jar in fetch("kafka", BROKER))
    return [java(), *(options or HEAP), "-cp", jars, name]


def wait_until(what: str, is_so: Callable[[], bool], nodes: Sequence[Node], limit_s: float = START_LIMIT_S) -> None:
    """Ask again and again until it is so. Raises HandError if that takes too long, or a node ends."""

    deadline = time.monotonic() + limit_s
    while not is_so():
        for node in nodes:
            node.check()
        if time.monotonic() > deadline:
            words = "".join(f"\n{node.system}:{node.last_words(5)}" for node in nodes)
            raise HandError(f"{what}: not within {limit_s:g} s{words}")
        time.sleep(PAUSE_S)
