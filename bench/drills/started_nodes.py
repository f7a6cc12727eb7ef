"""`penstock start --nodes 3` as a user has it: its processes, which are killed, paused, stopped and started again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from signal import Signals
from typing import Final

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.testing.quorum_view import active_controller, wait_until

PENSTOCK: Final = (sys.executable, "-m", "penstock", "start")
SECONDS: Final = 180.0
ANNOUNCED: Final = "  to stop "


class StartedNodes:
    """A local cluster with its own defaults; a node that is started again is so by its own file."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        """Start it, and wait until it says where it is."""
        self._data = directory / "penstock-data"
        self._said = directory / "said.txt"
        self._keepers: list[threading.Thread] = []
        self.nodes = range(1, count + 1)
        self.parent, lines = self._start("--nodes", str(count), "--port", "0", "--directory", str(self._data))
        told = {node: _value(lines, f"node {node} ") for node in self.nodes}
        self.bootstrap_servers = _value(lines, "bootstrap ")
        self._addresses = dict(zip(self.nodes, self.bootstrap_servers.split(","), strict=True))
        self._controllers = {node: told[node].partition("CONTROLLER://")[2].partition(",")[0] for node in self.nodes}
        self._pids = {node: int(told[node].rpartition("pid ")[2]) for node in self.nodes}
        self._alone: dict[int, subprocess.Popen[str]] = {}
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def address(self, node: int) -> str:
        """Where clients find this node."""
        return self._addresses[node]

    def data_of(self, node: int) -> Path:
        """Where this node's logs lie."""
        return self._data / f"node-{node}"

    def controller(self) -> int:
        """The active controller, as soon as there is one."""
        return wait_until(lambda: active_controller(self._controllers.values()), SECONDS, "an active controller")

    def signal(self, node: int, number: Signals) -> None:
        """Send a node a signal."""
        os.kill(self._pids[node], number)

    def end(self, node: int, number: Signals) -> None:
        """Send a node a signal that ends it, and wait until it has ended."""
        process = psutil.Process(self._pids[node])
        self.signal(node, number)
        if node in self._alone:
            self._alone.pop(node).wait(SECONDS)
        process.wait(SECONDS)

    def start(self, node: int) -> None:
        """Start one that has ended, and wait until it serves."""
        self._alone[node], _ = self._start(str(self._data / f"node-{node}.properties"))
        self._pids[node] = self._alone[node].pid

    def wait_in_sync(self, topic: str, count: int) -> None:
        """Until each partition has a leader and so many replicas in sync. TimeoutError says how it is instead."""
        seen: dict[int, tuple[int, list[int]]] = {}

        def look() -> bool | None:
            try:
                known = self._admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            except KafkaException:  # it asked one that hangs
                return None
            seen.update({one.id: (one.leader, one.isrs) for one in known})
            return all(leader >= 0 and len(isr) == count for leader, isr in seen.values()) or None

        try:
            wait_until(look, SECONDS, f"{count} replicas in sync")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: leader and replicas in sync of each partition are {seen}") from None

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""
        partitions = self._admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {index: one.leader for index, one in partitions.items()}

    def stop(self) -> None:
        """Stop them all."""
        processes = [*self._alone.values(), self.parent]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for keeper in self._keepers:
            keeper.join(SECONDS)

    def _start(self, *arguments: str) -> tuple[subprocess.Popen[str], list[str]]:
        """The process, and what it said until it served; what it says later goes into `said.txt`."""
        process = subprocess.Popen(
            [*PENSTOCK, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # who stops the drill with Ctrl-C stops its nodes last
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(ANNOUNCED):
                keeper = threading.Thread(target=self._keep, args=(process, arguments[-1]), daemon=True)
                keeper.start()
                self._keepers.append(keeper)
                return process, lines
        raise RuntimeError(f"{' '.join(arguments)} did not start: {' / '.join(lines)}")

    def _keep(self, process: subprocess.Popen[str], name: str) -> None:
        assert process.stdout is not None
        with self._said.open("a", buffering=1) as said:
            for line in process.stdout:
                said.write(f"{name}: {line}")


def _value(lines: list[str], label: str) -> str:
    (line,) = [line for line in lines if line.strip().startswith(label)]
    return line.strip().removeprefix(label).strip()
