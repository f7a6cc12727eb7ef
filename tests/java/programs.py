"""Programs in Java beside kills, for `make kafka`: one file each, which the launcher of Java compiles as it starts."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.hand_in_hand.node import HEAP, HandError
from bench.versus.kafka import fetch, java
from tests.killed_nodes import OF_KILLED_NODES

from penstock.testing import Cluster

LIMIT_S: Final = 600.0
"""Time is not measured here: a busy machine is no failure."""


@contextmanager
def three_nodes(config: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Processes, any of which may be killed: what two of them have is kept."""
    with Cluster(nodes=3, process=True, config=OF_KILLED_NODES | dict(config or {})) as cluster:
        yield cluster


class Program:
    """A process of Java whose input stays open; its output is in a file, line by line."""

    def __init__(self, folder: Path, source: str, pom: str, arguments: Sequence[str], *options: str) -> None:
        self.said = folder / f"{source}.out"
        jars = os.pathsep.join(map(str, fetch(pom)))
        command = [java(), *HEAP, *options, "-cp", jars, str(Path(__file__).with_name(f"{source}.java")), *arguments]
        self._read_from = self.said.stat().st_size if self.said.exists() else 0
        with self.said.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def check(self) -> None:
        """Raises HandError if it has ended by itself."""
        if self._process.poll() is not None:
            raise HandError(f"the program has ended by itself, {self._process.returncode}: {self.said}")

    def lines(self) -> list[str]:
        """What it has said so far. Raises HandError if it has ended by itself."""
        self.check()
        return self._lines()

    def kill(self) -> list[str]:
        """With SIGKILL; returns all that it has said in this life."""
        self._process.kill()
        self._process.wait()
        return self._lines()

    def _lines(self) -> list[str]:
        with self.said.open("rb") as file:
            file.seek(self._read_from)
            text = file.read()
        return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()
