"""Three nodes of one system on this machine, each broker and controller; three replicas, of which two must answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from bench.node import penstock_command
from bench.process import BrokerProcess, Command
from bench.versus.kafka import kafka_command, new_cluster_id
from bench.versus.systems import KAFKA, PENSTOCK, scratch
from penstock.testing.layout import format_as_one_cluster, replica_settings
from penstock.testing.quorum_view import active_controller, known_brokers, wait_until

NODES: Final = (1, 2, 3)
SYSTEMS: Final = (KAFKA, PENSTOCK)
PATIENCE_S: Final = 300.0


class ThreeNodes:
    """They run, and each knows the others."""

    def __init__(self, system: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.system = system
        self._settings = settings or {}
        self._ports = dict(zip(NODES, free_ports(2 * len(NODES)), strict=False))
        self._controllers = dict(zip(NODES, free_ports(len(NODES), set(self._ports.values())), strict=True))
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
    def address(self) -> str:
        """The bootstrap servers, as each question asks a broker for."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def pids(self) -> list[int]:
        """The processes of the nodes that run."""
        return [broker.process.pid for broker in self.brokers.values()]

    def cpu_s(self) -> float:
        """CPU seconds of all nodes since they began."""
        return sum(broker.cpu().total for broker in self.brokers.values())

    def controller(self) -> int:
        """The active controller."""
        addresses = [f"127.0.0.1:{port}" for port in self._controllers.values()]
        return wait_until(lambda: active_controller(addresses), PATIENCE_S, "an active controller")

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""
        return {index: one.leader for index, one in self._partitions(topic).items()}

    def wait_in_sync(self, topic: str) -> None:
        """Until each partition has a leader, and a replica in sync on each node that runs."""

        def look() -> bool | None:
            known = self._partitions(topic).values()
            return all(one.leader in self.brokers and len(one.isrs) == len(self.brokers) for one in known) or None

        wait_until(look, PATIENCE_S, f"{topic} in sync")

    def _partitions(self, topic: str) -> dict[int, Any]:
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        return admin.list_topics(topic, timeout=60).topics[topic].partitions

    def kill(self, node: int) -> None:
        """kill -9."""
        self.brokers.pop(node).kill()

    def start(self, node: int) -> None:
        """Start one that was killed, and wait until all know it again."""
        self._launch(node)
        self._wait_for(node)

    def stop(self) -> None:
        """Stop them; nobody is interested in how."""
        for broker in self.brokers.values():
            broker.kill()
        self.brokers.clear()

    def _launch(self, node: int) -> None:
        voters = ",".join(f"{other}@127.0.0.1:{port}" for other, port in self._controllers.items())
        port, controller = self._ports[node], self._controllers[node]
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            **replica_settings(len(NODES)),
            **self._settings,
        }
        directory = self._directories[node]
        self.brokers[node] = BrokerProcess(self._command, directory, settings, port=port, is_alone=False)

    def _wait_for(self, node: int) -> None:
        self.brokers[node].await_first_answer()
        for other in self.brokers:
            wait_until(partial(self._knows, other, node), PATIENCE_S, f"{other} knows {node}")

    def _knows(self, one: int, other: int) -> bool | None:
        return other in known_brokers(f"127.0.0.1:{self._ports[one]}") or None


@contextmanager
def three_of_each() -> Iterator[Mapping[str, ThreeNodes]]:
    """Both systems at once; those that are not asked are idle."""
    with ExitStack() as stack:
        yield {system: stack.enter_context(three_nodes(system)) for system in SYSTEMS}


@contextmanager
def three_nodes(system: str, settings: Mapping[str, str] | None = None) -> Iterator[ThreeNodes]:
    """Three nodes on empty directories."""
    with scratch() as directory:
        nodes = ThreeNodes(system, directory, settings)
        try:
            yield nodes
        finally:
            nodes.stop()


def free_ports(count: int, besides: set[int] = frozenset()) -> list[int]:  # type: ignore[assignment]
    """Ports that nothing listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count + len(besides))]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        found = [int(probe.getsockname()[1]) for probe in probes]
    return [port for port in found if port not in besides][:count]
