"""A node under measurement: a real process, as `penstock start` makes it, with its own default settings."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.protocol.framing import encode_request
from penstock.protocol.messages.api_versions import ApiVersionsRequest

BOOT_LIMIT_S = 30.0


@dataclass(slots=True)
class CpuTimes:
    """CPU seconds of the node between two points."""

    user: float
    system: float


class Node:
    """A running node. `boot_s` is the time from the start of the process to its first answered request."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.log_path = directory / "node.out"
        options = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", "log.dirs": str(directory / "data"), **settings}
        arguments = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
        started = time.perf_counter()
        with self.log_path.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "start", *arguments], stdout=output, stderr=subprocess.STDOUT
            )
        self._await_first_answer(started)
        self.boot_s = time.perf_counter() - started
        self._watched = psutil.Process(self.process.pid)

    @property
    def address(self) -> str:
        """The bootstrap server."""
        return f"127.0.0.1:{self.port}"

    @property
    def resident_mb(self) -> float:
        """Resident memory in MB."""
        return float(self._watched.memory_info().rss) / 1e6

    def cpu(self) -> CpuTimes:
        """CPU seconds since the process began."""
        times = self._watched.cpu_times()
        return CpuTimes(float(times.user), float(times.system))

    def cpu_since(self, before: CpuTimes) -> CpuTimes:
        """CPU seconds since `before`."""
        now = self.cpu()
        return CpuTimes(now.user - before.user, now.system - before.system)

    def stop(self) -> None:
        """Stop as an operator would."""
        self.process.terminate()
        self.process.wait(30)

    def _await_first_answer(self, started: float) -> None:
        while time.perf_counter() - started < BOOT_LIMIT_S:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, "bench"))
                    if connection.recv(4):
                        return
            except OSError:
                time.sleep(0.002)
        raise RuntimeError(f"the node did not answer; it said: {self.log_path.read_text()}")


@contextmanager
def running_node(**settings: str) -> Iterator[Node]:
    """A node on an empty directory; keys are written with `_` for `.`."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    node = Node(directory, {key.replace("_", "."): value for key, value in settings.items()})
    try:
        yield node
    finally:
        node.stop()
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
