"""`penstock start` as a process of its own, as a user would start it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

START = (sys.executable, "-m", "penstock", "start")
ANY_PORT = ("--set", "listeners=PLAINTEXT://127.0.0.1:0")
SECONDS = 90
SOURCES = Path(__file__).resolve().parents[2] / "src"


class Started:
    """A node that said that it listens."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.said.append(line.rstrip("\n"))
            if "to stop" in line:
                break
        assert len(self.said) >= 4, self.said

    def value(self, label: str) -> str:
        """What stands behind a label of the announcement."""
        (line,) = [line for line in self.said if line.strip().startswith(f"{label} ")]
        return line.partition(label)[2].strip()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.value("listens on").rpartition(":")[2])

    def ends_after(self, signal_number: int) -> tuple[int, str]:
        """Send a signal; the exit code and what was said after the announcement."""
        self.process.send_signal(signal_number)
        rest, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, rest


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a node: ours, with the sources under test in front."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return kept | {"PYTHONPATH": str(SOURCES)} | dict(more or {})


@contextmanager
def started(directory: Path, *arguments: str, more: Mapping[str, str] | None = None) -> Iterator[Started]:
    """Run `penstock start` in a directory; a node that still runs at the end is killed."""
    process = subprocess.Popen(
        [*START, *arguments],
        cwd=directory,
        env=environment(more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Started(process)
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def refused(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `penstock start` where it cannot start; returns what it said and its exit code."""
    return subprocess.run(
        [*START, *arguments], cwd=directory, env=environment(), capture_output=True, text=True, timeout=SECONDS
    )
