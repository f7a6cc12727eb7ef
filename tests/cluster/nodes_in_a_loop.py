"""Several nodes on the event loop of the test, with real sockets and logs, so that a test can look into each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.client.admin import Admin
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.assembly.start import RunningNode, start_node
from penstock.testing.layout import PATIENT_QUORUM, QUICK_QUORUM, format_as_one_cluster
from penstock.testing.ports import ReservedPort

PATIENCE_S = 30
BOTH = "broker,controller"


class Nodes:
    """The nodes of a cluster by their ids; `running` are those that run."""

    def __init__(self, directory: Path, roles: dict[int, str], **settings: str) -> None:
        self.roles = roles
        self.running: dict[int, RunningNode] = {}
        self._directories = {node_id: directory / f"node-{node_id}" for node_id in roles}
        self._settings = (
            QUICK_QUORUM | PATIENT_QUORUM | {key.replace("_", "."): value for key, value in settings.items()}
        )
        self._ports = {node_id: (ReservedPort(), ReservedPort()) for node_id in roles}
        self.cluster_id = format_as_one_cluster(self._directories)

    def config(self, node_id: int, **settings: str) -> BrokerConfig:
        """What a node is started with."""
        roles = self.roles[node_id]
        for_clients, for_peers = self._ports[node_id]
        listeners = [f"PLAINTEXT://{for_clients.address}"] if "broker" in roles else []
        listeners += [f"CONTROLLER://{for_peers.address}"] if "controller" in roles else []
        voters = [
            f"{voter}@{self._ports[voter][1].address}" for voter in self.roles if "controller" in self.roles[voter]
        ]
        return BrokerConfig(
            {
                "process.roles": roles,
                "node.id": str(node_id),
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": ",".join(voters),
                "log.dirs": str(self._directories[node_id]),
                "offsets.topic.num.partitions": "5",
                "group.initial.rebalance.delay.ms": "0",
            }
            | self._settings
            | {key.replace("_", "."): value for key, value in settings.items()}
        )

    def address(self, *node_ids: int) -> str:
        """Where clients find these nodes, or all that are brokers."""
        chosen = node_ids or [node_id for node_id in self.roles if "broker" in self.roles[node_id]]
        return ",".join(self._ports[node_id][0].address for node_id in chosen)

    async def start(self, *node_ids: int) -> None:
        """Start these nodes, or all, at the same time."""
        chosen = node_ids or tuple(self.roles)
        started = await asyncio.gather(*(start_node(self.config(node_id)) for node_id in chosen))
        self.running |= dict(zip(chosen, started, strict=True))

    async def stop(self, *node_ids: int) -> None:
        """Stop these nodes, or all, at the same time; but brokers before those that are controllers only."""
        chosen = node_ids or tuple(self.running)
        brokers = [node_id for node_id in chosen if "broker" in self.roles[node_id]]
        for together in (brokers, [node_id for node_id in chosen if node_id not in brokers]):
            await asyncio.gather(*(self.running.pop(node_id).stop() for node_id in together))

    def image(self, node_id: int) -> ClusterImage:
        """What a node knows of the cluster."""
        return self.running[node_id].parts.context.image

    @property
    def active(self) -> RunningNode:
        """The node whose controller is active."""
        (found,) = (node for node in self.running.values() if (c := node.parts.controller) is not None and c.is_active)
        return found

    async def until(self, node_id: int, is_so: Callable[[ClusterImage], bool]) -> None:
        """Wait until what a node knows of the cluster is so."""
        log = self.running[node_id].parts.log
        changed = asyncio.Event()
        log.add_listener(lambda _: changed.set(), changed.set)
        log.add_leader_listener(lambda leader_id, epoch: changed.set())
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(log.image):
                changed.clear()
                await changed.wait()

    async def until_everywhere(self, is_so: Callable[[ClusterImage], bool]) -> None:
        """Wait until that is so on every node that runs."""
        await asyncio.gather(*(self.until(node_id, is_so) for node_id in self.running))

    def admin(self, *node_ids: int, **properties: str) -> Admin:
        """A client of these nodes, or of all."""
        settings = ClientSettings(retry_backoff_ms=20)
        named = {key.replace("_", "."): value for key, value in properties.items()}
        return Admin(self.address(*node_ids), with_properties(settings, named))

    def give_back(self) -> None:
        """Give the ports back."""
        for ports in self._ports.values():
            for port in ports:
                port.release()


@asynccontextmanager
async def nodes(directory: Path, roles: dict[int, str] | None = None, **settings: str) -> AsyncIterator[Nodes]:
    """A cluster that runs: three nodes that are broker and controller, if nothing else is said."""
    cluster = Nodes(directory, roles or dict.fromkeys((1, 2, 3), BOTH), **settings)
    try:
        await cluster.start()
        brokers = sorted(node_id for node_id, role in cluster.roles.items() if "broker" in role)
        await cluster.until_everywhere(
            lambda image: [node_id for node_id, broker in sorted(image.brokers.items()) if broker.active] == brokers
        )
        yield cluster
    finally:
        await cluster.stop()
        cluster.give_back()
