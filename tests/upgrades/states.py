"""Nodes, commands and workers of two states of the source: this one, and one of the past, which git has."""

import os
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLDER = "84b83c5"
"""The state before transactions, log-ins and groups of the consumer protocol."""
RECENT = "4148bb61"
"""The first state that is to go on of those that have share groups and records that wait."""
SECONDS = 300
_ADDRESS = re.compile(r"(?:listens on\s+|bootstrap\s+|REST at )(?:\w+://)?([^\s,]+)")


class State:
    """A source tree, and what is started of it."""

    def __init__(self, sources: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.environment = kept | {"PYTHONPATH": str(sources)}

    def command(self, *arguments: str, given: str = "", exit_code: int | None = 0) -> str:
        """What a command prints, with what it complains of."""
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert exit_code is None or done.returncode == exit_code, done.stdout
        return done.stdout

    def start(self, *arguments: str) -> "Process":
        """Waits until it says where it listens."""
        process = self.start_at_once(*arguments)
        process.listens()
        return process

    def start_at_once(self, *arguments: str) -> "Process":
        return Process([sys.executable, "-m", "penstock", *arguments], self.environment)


class Process:
    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []
        self.address = ""

    def listens(self) -> None:
        """Waits until it says where."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if found := _ADDRESS.search(line):
                self.address = found[1]
                return
        raise AssertionError("".join(self.said))

    def stop(self) -> str:
        """The rest of what it says; it has to end well."""
        self.process.terminate()
        rest, _ = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0, rest
        return rest


def older_state(directory: Path, commit: str = OLDER) -> State:
    """Skips where git does not have that commit."""
    asked = ["git", "archive", "--format=tar", commit, "src"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"this is no clone with the commit {commit}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as files:
        files.extractall(directory, filter="data")
    return State(directory / "src")


THIS = State(ROOT / "src")
