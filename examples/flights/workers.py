"""Three workers that share connectors, each a process, and what the demo asks of them."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.work.connect_client import ConnectClient

STORES = ("config", "offset", "status")
LIMIT_S, LOOK_EVERY_S = 600.0, 0.5
SESSION_MS = 6_000
Found = TypeVar("Found")


class WaitError(Exception):
    """Something did not come about; the text says what."""


class Workers:
    """The processes by the names that they have in statuses."""

    def __init__(self, processes: Mapping[str, "subprocess.Popen[str]"]) -> None:
        self._processes = dict(processes)

    @property
    def names(self) -> list[str]:
        """Those that live."""
        return list(self._processes)

    @property
    def client(self) -> ConnectClient:
        """Any of them."""
        return ConnectClient(self.names[0])

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """A connector, as soon as the workers know who leads."""
        wait_until(lambda: self._created(name, config), f"connector {name}")

    def _created(self, name: str, config: Mapping[str, str]) -> bool | None:
        try:
            self.client.ask("PUT", "connectors", name, "config", body=dict(config))
        except click.ClickException:
            return None
        return True

    def owners(self, name: str) -> dict[int, str] | None:
        """Which worker runs each task of a connector; None as long as one does not run."""
        try:
            tasks = self.client.ask("GET", "connectors", name, "status")["tasks"]
        except click.ClickException:
            return None
        is_running = bool(tasks) and all(
            task["state"] == "RUNNING" and task["worker_id"] in self._processes for task in tasks
        )
        return {task["id"]: task["worker_id"] for task in tasks} if is_running else None

    def reports(self, name: str) -> list[dict[str, Any]]:
        """What the tasks of a pipeline tell, those that can be asked."""
        found = []
        for task in self.owners(name) or {}:
            try:
                found.append(self.client.ask("GET", "connectors", name, "tasks", str(task), "report")["report"])
            except click.ClickException:
                continue  # it moves
        return found

    def kill(self, name: str) -> int:
        """End one as `kill -9` does; its process id."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process.pid


@contextmanager
def started(directory: Path, bootstrap_servers: str, count: int = 3) -> Iterator[Workers]:
    """That many workers, until the context ends."""
    file = directory / "worker.properties"
    keys = {f"{store}.storage.topic": f"connect-{store}" for store in STORES}
    keys |= {f"{store}.storage.replication.factor": "1" for store in STORES}
    keys |= {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "demo",
        "listeners": "http://127.0.0.1:0",
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": "1000",
        "offset.flush.interval.ms": "1000",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    command = [sys.executable, "-m", "penstock", "worker", str(file)]
    with ExitStack() as stack, (directory / "workers.log").open("w") as log:
        processes = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))
            for _ in range(count)
        ]
        for process in processes:
            stack.callback(process.terminate)
        named = {}
        for process in processes:
            assert process.stdout is not None
            named[process.stdout.readline().rpartition("http://")[2].strip()] = process
        if "" in named:
            raise WaitError(f"A worker did not start: see {directory}/workers.log")
        yield Workers(named)


def wait_until(look: Callable[[], Found | None], what: str) -> Found:
    """What `look` finds; WaitError."""
    deadline = time.monotonic() + LIMIT_S
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise WaitError(f"There was no {what} after {LIMIT_S:.0f} s.")
        time.sleep(LOOK_EVERY_S)
    return found
