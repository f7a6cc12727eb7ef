"""One node of a cluster for tests: it is started, stopped, killed and paused; its data and its address stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.testing.ports import ReservedPort
from penstock.testing.process_node import ProcessNode

if TYPE_CHECKING:
    from penstock.testing.thread_node import ThreadNode

ANY_PORT = ":0"


class ClusterNode:
    """`Cluster.nodes` has the nodes; `id` is the node's id, `directory` has its data."""

    def __init__(
        self,
        node_id: int,
        settings: Mapping[str, str],
        *,
        directory: Path,
        process: bool,
        ports: Sequence[ReservedPort] = (),
        address: str | None = None,
        controller_address: str | None = None,
    ) -> None:
        """Nothing runs yet. Without an address the node takes a free one, once for all."""
        self.id = node_id
        self.directory = directory
        self.controller_address = controller_address
        """The `host:port` for its peers; None without a controller listener."""
        self.address = address
        """The `host:port` for clients; None for a controller that is no broker, and before the first start."""
        self.is_paused = False
        self._settings = dict(settings)
        self._process = process
        self._ports = ports
        self._node: ThreadNode | ProcessNode | None = None

    def __repr__(self) -> str:
        return f"ClusterNode({self.id}, {'runs' if self.is_running else 'does not run'})"

    @property
    def is_running(self) -> bool:
        """Started and neither stopped nor killed; a paused node counts."""
        return self._node is not None

    @property
    def pid(self) -> int | None:
        """None where the node is a thread of this process or does not run."""
        return self._node.pid if isinstance(self._node, ProcessNode) else None

    def start(self) -> None:
        """Returns when the node answers: of several, only when a majority of the controllers runs. RuntimeError says
        why not.
        """
        if self._node is not None:
            raise RuntimeError(f"node {self.id} runs already")
        settings = dict(self._settings)
        if self.address is not None and settings["listeners"].endswith(ANY_PORT):
            settings["listeners"] = settings["listeners"].removesuffix(ANY_PORT) + ":" + self.address.rpartition(":")[2]
        for port in self._ports:
            port.make_way()
        address = self._start(settings)
        if not self._ports:
            self.address = address

    def stop(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            self._wake(node)
            node.stop()
            self._keep_port()

    def kill(self) -> None:
        """At once, without any chance to clean up. Only a process."""
        node = self._running_process("killed")
        self._node, self.is_paused = None, False
        node.kill()
        self._keep_port()

    def restart(self) -> None:
        """With the same data on the same ports, running or not."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """The node does nothing from now on (SIGSTOP): for its peers it hangs. Only a process."""
        os.kill(self._running_process("paused").pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._wake(self._running_process("resumed"))

    def _keep_port(self) -> None:
        """Else the system could give a port that was free to another process before the node starts again."""
        if self.address is not None and not self._ports:
            with suppress(OSError):
                self._ports = (ReservedPort(int(self.address.rpartition(":")[2])),)

    def give_back(self) -> None:
        for port in self._ports:
            port.release()

    def _wake(self, node: ThreadNode | ProcessNode) -> None:
        if self.is_paused and isinstance(node, ProcessNode):
            os.kill(node.pid, signal.SIGCONT)
        self.is_paused = False

    def _running_process(self, done: str) -> ProcessNode:
        if not isinstance(self._node, ProcessNode):
            raise RuntimeError(f"only a process can be {done}: use Cluster(process=True), and start it first")
        return self._node

    def _start(self, settings: Mapping[str, str]) -> str:
        """Returns the listener's address; the process is known before that."""
        if self._process:
            self._node = process = ProcessNode(settings)
            try:
                return process.wait_until_it_listens()
            except RuntimeError:
                self._node = None
                raise
        # Not at the top: a node in a process of its own need not be imported here as well, 200 ms of CPU.
        from penstock.testing.thread_node import ThreadNode

        self._node = ThreadNode(settings)
        return self._node.address
