"""One node of each system, on a directory, listening on the loopback alone.

It syncs what it confirms, or, where it is not `synced`, leaves that to the kernel, if it can.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import create_connection
from typing import Final, Protocol

import psutil
from bench.process import free_ports, penstock_command

LIMIT_S: Final = 120.0


class MissingError(Exception):
    """A program is not installed. The text says which, and from where it comes."""


class Server:
    """All processes that a command has started."""

    def __init__(
        self, command: Sequence[str], directory: Path, address: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        with (directory / "server.out").open("ab") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, env={**os.environ, **(env or {})}, start_new_session=True
            )
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{command[0]} does not answer: {(directory / 'server.out').read_text()[-2000:]}")

    def _processes(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu_s(self) -> float:
        times = [process.cpu_times() for process in self._processes()]
        return sum(float(one.user) + float(one.system) for one in times)

    def stop(self) -> None:
        for process in self._processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        self._process.wait()


def _program(name: str, source: str, *places: str) -> str:
    found = shutil.which(name) or next((place for place in places if Path(place).exists()), None)
    if found is None:
        raise MissingError(f"{name} is not installed: {source}")
    return found


def penstock(directory: Path, *, synced: bool) -> Server:
    (port,) = free_ports(1)
    command, env = penstock_command(directory, port, {"log.flush.interval.messages": "1"} if synced else {})
    return Server(command, directory, f"127.0.0.1:{port}", env)


def nats(directory: Path, *, synced: bool) -> Server:
    program = _program("nats-server", "go install github.com/nats-io/nats-server/v2@latest, and put it on the path")
    (port,) = free_ports(1)
    settings = directory / "nats.conf"
    sync = "sync_interval: always" if synced else ""
    settings.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{directory}/jetstream", {sync} }}\n')
    return Server([program, "-c", str(settings)], directory, f"127.0.0.1:{port}")


RABBITMQ_AS_ROOT: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""The one on the path goes to a user of its own, who has no directory of ours."""


def rabbitmq(directory: Path, *, synced: bool) -> Server:
    """A quorum queue is always synced. The daemon of Erlang's names is a child here: else it would stay."""
    _program("rabbitmq-server", "apt-get install rabbitmq-server", RABBITMQ_AS_ROOT)
    program = RABBITMQ_AS_ROOT if Path(RABBITMQ_AS_ROOT).exists() else "rabbitmq-server"
    port, names, nodes = free_ports(3)
    command = ["sh", "-c", f"epmd -port {names} -address 127.0.0.1 & exec {program}"]
    settings = directory / "rabbitmq.conf"
    settings.write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    env = {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"queues-{port}@localhost",
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    return Server(command, directory, f"127.0.0.1:{port}", env)


class System(Protocol):
    def __call__(self, directory: Path, *, synced: bool) -> Server: ...


SYSTEMS: Final[Mapping[str, System]] = {"penstock": penstock, "nats": nats, "rabbitmq": rabbitmq}
