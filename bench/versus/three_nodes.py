"""Three nodes of one system on this machine, each broker and controller; three replicas, of which two must answer."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.node import penstock_command, scratch
from bench.process import BrokerProcess, Command, free_ports
from bench.versus.kafka import kafka_command, new_cluster_id, server_settings
from bench.versus.systems import KAFKA, PENSTOCK
from penstock.testing.layout import format_as_one_cluster, replica_settings
from penstock.testing.quorum_view import active_controller, known_brokers, wait_until

NODES: Final = (1, 2, 3)
SYSTEMS: Final = (KAFKA, PENSTOCK)
PATIENCE_S: Final = 300.0


class ThreeNodes:
    """Each node knows the others. `address` has the bootstrap servers, as each question asks a broker for."""

    def __init__(self, system: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.system = system
        self._settings = settings or {}
        ports = free_ports(2 * len(NODES))
        self._ports = dict(zip(NODES, ports, strict=False))
        self._controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self.address = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self._directories = {node: directory / f"node-{node}" for node in NODES}
        for path in self._directories.values():
            path.mkdir(parents=True)
        if system == KAFKA:
            self._command: Command = partial(kafka_command, cluster_id=new_cluster_id())
        else:
            format_as_one_cluster({node: path / "data" for node, path in self._directories.items()})
            self._command = penstock_command
        self.brokers: dict[int, BrokerProcess] = {}
        try:
            for node in NODES:
                self._launch(node)
            for node in NODES:
                self._wait_for(node)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        return [broker.pid for broker in self.brokers.values()]

    def cpu_s(self) -> float:
        return sum(broker.cpu().total for broker in self.brokers.values())

    def controller(self) -> int:
        addresses = [f"127.0.0.1:{port}" for port in self._controllers.values()]
        return wait_until(lambda: active_controller(addresses), PATIENCE_S, "an active controller")

    def kill(self, node: int) -> None:
        self.brokers.pop(node).kill()

    def start(self, node: int) -> None:
        """After a kill; returns when all know it again."""
        self._launch(node)
        self._wait_for(node)

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.brokers.clear()

    def _launch(self, node: int) -> None:
        port, directory = self._ports[node], self._directories[node]
        own = server_settings(node, directory / "data", port, self._controllers[node], self._controllers)
        settings = {**own, **replica_settings(len(NODES)), **self._settings}
        self.brokers[node] = BrokerProcess(self._command, directory, settings, port=port, is_alone=False)

    def _wait_for(self, node: int) -> None:
        self.brokers[node].await_first_answer()
        for other in self.brokers:
            wait_until(partial(self._knows, other, node), PATIENCE_S, f"{other} knows {node}")

    def _knows(self, one: int, other: int) -> bool | None:
        return other in known_brokers(self.brokers[one].address) or None


@contextmanager
def three_of_each() -> Iterator[Mapping[str, ThreeNodes]]:
    """At once; the ones that are not asked are idle."""
    with ExitStack() as stack:
        yield {system: stack.enter_context(three_nodes(system)) for system in SYSTEMS}


@contextmanager
def three_nodes(system: str, settings: Mapping[str, str] | None = None) -> Iterator[ThreeNodes]:
    with scratch() as directory:
        nodes = ThreeNodes(system, directory, settings)
        try:
            yield nodes
        finally:
            nodes.stop()
