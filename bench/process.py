"""A broker under measurement: a process that listens on a port, and what the operating system accounts to it."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.requests.framing import encode_request

BOOT_LIMIT_S = 900.0
STOP_LIMIT_S = 180.0
Command = Callable[[Path, int, Mapping[str, str]], tuple[Sequence[str], Mapping[str, str] | None]]
"""How a broker is started: (its directory, its port, settings by Kafka's names) to a command line and environment."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds of a broker between two points."""

    user: float
    system: float

    @property
    def total(self) -> float:
        """User and system together."""
        return self.user + self.system


class BrokerProcess:
    """A running broker. `boot_s` is the time from the start of the process to its first answered request."""

    def __init__(
        self, command: Command, directory: Path, settings: Mapping[str, str], *, port: int = 0, is_alone: bool = True
    ) -> None:
        """Start it and wait until it answers; one of several does so only when others run (`await_first_answer`)."""
        self.port = port or free_port()
        self.directory = directory
        self._said = directory / "broker.out"
        arguments, environment = command(directory, self.port, settings)
        self.started = time.perf_counter()
        with self._said.open("ab") as output:
            self.process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, env=environment)
        self._watched = psutil.Process(self.process.pid)
        self.boot_s = 0.0
        if is_alone:
            self.await_first_answer()

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
        """Stop as an operator would; one that does not stop is killed."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def await_first_answer(self) -> None:
        """Wait until it answers."""
        while time.perf_counter() - self.started < BOOT_LIMIT_S:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, "bench"))
                    if connection.recv(4):
                        self.boot_s = time.perf_counter() - self.started
                        return
            except OSError:
                time.sleep(0.002)
        self.process.kill()
        raise RuntimeError(f"the broker did not answer; it said: {self._said.read_text()}")


def free_port(besides: int = 0) -> int:
    """A port that nothing listens on, and not `besides`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    return port if port != besides else free_port(besides)
