"""A broker under measurement: a process that listens on a port, and what the operating system accounts to it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from typing import Final

import psutil

from bench.wire import Wire
from penstock.protocol.messages.api_versions import ApiVersionsRequest

BOOT_LIMIT_S: Final = 900.0
STOP_LIMIT_S: Final = 180.0
Command = Callable[[Path, int, Mapping[str, str]], tuple[Sequence[str], Mapping[str, str] | None]]
"""(directory, port, settings by Kafka's names) to the command line and environment of a broker."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds: of a process since it began, or between two points."""

    user: float
    system: float

    def __sub__(self, before: "CpuTimes") -> "CpuTimes":
        return CpuTimes(self.user - before.user, self.system - before.system)

    @property
    def total(self) -> float:
        return self.user + self.system


def cpu_of(pid: int | None) -> CpuTimes:
    times = psutil.Process(pid).cpu_times()
    return CpuTimes(float(times.user), float(times.system))


class CommandError(Exception):
    """The text is the command's output."""


def said_by(command: Sequence[str], limit_s: float | None = None) -> str:
    """Raises CommandError if the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    if done.returncode:
        raise CommandError(f"{' '.join(command[-8:])}: {done.stdout}{done.stderr}")
    return done.stdout


class Process:
    """Output goes to a file, stderr perhaps to another one."""

    def __init__(
        self, command: Sequence[str], said: Path, env: Mapping[str, str] | None = None, log: Path | None = None
    ) -> None:
        self.said, self.log_file = said, log or said
        with said.open("ab") as output, self.log_file.open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=output, stderr=errors, env=env)
        self.pid = self._process.pid
        self.wait = self._process.wait

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6

    def cpu(self) -> CpuTimes:
        return cpu_of(self.pid)

    def cpu_s(self) -> float:
        return self.cpu().total

    def stop(self, limit_s: float = STOP_LIMIT_S) -> bool:
        """As an operator would; False if the process had to be killed."""
        self._process.terminate()
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def last_words(self, lines: int = 15) -> str:
        return "\n" + "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


class BrokerProcess(Process):
    """`boot_s` is the time from the start of the process to its first answered request."""

    count = 1

    def __init__(
        self, command: Command, directory: Path, settings: Mapping[str, str], *, port: int = 0, is_alone: bool = True
    ) -> None:
        """Waits until it answers; one of several does so only when others run (`await_first_answer`)."""
        self.address = f"127.0.0.1:{port or free_ports(1)[0]}"
        self.clients: dict[str, str | int] = {}
        """What is to be told to clients that do not go to this address."""
        self.directory = directory
        arguments, environment = command(directory, int(self.address.rpartition(":")[2]), settings)
        self.started = time.perf_counter()
        super().__init__(arguments, directory / "broker.out", environment)
        self.boot_s = 0.0
        if is_alone:
            self.await_first_answer()

    def await_first_answer(self) -> None:
        while time.perf_counter() - self.started < BOOT_LIMIT_S and self.exit_code is None:
            try:
                with Wire(self.address, 1) as wire:
                    wire.ask(ApiVersionsRequest(), 0)
                    self.boot_s = time.perf_counter() - self.started
                    return
            except OSError:
                time.sleep(0.002)
        self.kill()
        raise RuntimeError(f"the broker did not answer; it said: {self.last_words(100)}")


def free_ports(count: int, besides: Collection[int] = ()) -> list[int]:
    """Ports without a listener, and not in `besides`."""
    with ExitStack() as stack:
        probes = [stack.enter_context(create_server(("127.0.0.1", 0))) for _ in range(count + len(besides))]
        found = [int(probe.getsockname()[1]) for probe in probes]
    return [port for port in found if port not in besides][:count]


BYTECODE: Final = Path(sys.prefix) / "bench-bytecode"
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}
AS_INSTALLED: Final = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
"""Defaults of Kafka and of an installation, where clusters for tests have others, which elect faster."""


def own_environment() -> dict[str, str]:
    """The node finds its modules compiled, as an installed package's are, whatever this shell says."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def source_environment() -> dict[str, str]:
    """Finds the modules of this checkout, `bench` among them."""
    tree = Path(__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'src'}"}


def penstock_command(directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], dict[str, str]]:
    options = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(directory / "data"), **settings}
    arguments = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "penstock", "start", *arguments], own_environment()


@contextmanager
def scratch() -> Iterator[Path]:
    """Deleted afterwards, whatever still writes into the directory."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def running(
    command: Command, directory: Path, settings: Mapping[str, str] | None = None, port: int = 0
) -> Iterator[BrokerProcess]:
    directory.mkdir(parents=True, exist_ok=True)
    broker = BrokerProcess(command, directory, settings or {}, port=port)
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def running_node(
    settings: Mapping[str, str] | None = None, command: Command = penstock_command
) -> Iterator[BrokerProcess]:
    with scratch() as directory, running(command, directory, settings) as node:
        yield node
