"""How the nodes of a cluster for tests are laid out: roles, ids, ports, directories, and a quorum that elects fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final

from penstock.log.disk import Disk
from penstock.log.formatting import format_directories, identities
from penstock.metadata.configs.voters import VOTERS_KEY
from penstock.protocol.uuids import random_uuid, uuid_to_text
from penstock.testing.cluster_node import ClusterNode
from penstock.testing.ports import ReservedPort

QUICK_QUORUM: Final[dict[str, str]] = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.request.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
}
"""Where the quorum of a cluster for tests differs from Kafka's defaults: a test should not wait seconds for the next
controller."""

OWN_KEYS: Final = (
    "process.roles",
    "node.id",
    "broker.id",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "log.dir",
    "log.dirs",
    VOTERS_KEY,
    "controller.quorum.bootstrap.servers",
)
"""Keys that differ from node to node, or must fit together: the cluster sets them itself."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The roles of each node, by its id."""

    roles: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, nodes: int, brokers: int | None, controllers: int | None, config: Mapping[str, str]) -> Layout:
        """What the arguments of `Cluster` say. Raises ValueError."""
        for key in OWN_KEYS:
            if key in config:
                raise ValueError(f"config: {key} is what the cluster sets itself for each of its nodes")
        if brokers is None and controllers is None:
            if nodes < 1:
                raise ValueError(f"nodes={nodes}: a cluster has at least one node")
            return cls(dict.fromkeys(range(1, nodes + 1), ("broker", "controller")))
        if nodes != 1 or not brokers or not controllers or min(brokers, controllers) < 1:
            raise ValueError("give either nodes, or both brokers and controllers, each at least 1")
        first = brokers + 1
        return cls(
            dict.fromkeys(range(1, first), ("broker",))
            | dict.fromkeys(range(first, first + controllers), ("controller",))
        )

    def prepare(
        self, directory: Path, defaults: Mapping[str, str], config: Mapping[str, str], *, process: bool
    ) -> tuple[ClusterNode, ...]:
        """Take ports and format directories; `config` goes before `defaults`."""
        common = dict(defaults) | QUICK_QUORUM | dict(config)
        ports = {node_id: dict(_ports(roles)) for node_id, roles in self.roles.items()}
        voters = ",".join(
            f"{node_id}@{own['CONTROLLER'].address}" for node_id, own in ports.items() if "CONTROLLER" in own
        )
        directories = {node_id: directory / f"node-{node_id}" for node_id in self.roles}
        format_as_one_cluster(directories)
        return tuple(
            ClusterNode(
                node_id,
                common
                | {
                    "process.roles": ",".join(roles),
                    "node.id": str(node_id),
                    "listeners": ",".join(f"{name}://{port.address}" for name, port in ports[node_id].items()),
                    "controller.listener.names": "CONTROLLER",
                    "log.dirs": str(directories[node_id]),
                    VOTERS_KEY: voters,
                },
                directory=directories[node_id],
                process=process,
                ports=tuple(ports[node_id].values()),
                address=_address(ports[node_id], "PLAINTEXT"),
                controller_address=_address(ports[node_id], "CONTROLLER"),
            )
            for node_id, roles in self.roles.items()
        )


def _ports(roles: tuple[str, ...]) -> Iterator[tuple[str, ReservedPort]]:
    """A port for each listener, by its name."""
    if "broker" in roles:
        yield "PLAINTEXT", ReservedPort()
    if "controller" in roles:
        yield "CONTROLLER", ReservedPort()


def _address(ports: Mapping[str, ReservedPort], name: str) -> str | None:
    return ports[name].address if name in ports else None


def format_as_one_cluster(directories: Mapping[int, Path]) -> str:
    """Make them directories of one cluster, by node id; those that are from an earlier time stay what they are.

    Returns the cluster's id. Raises LogDirectoryError where they cannot belong together.
    """
    disk, random = Disk(), SystemRandom()
    found = identities(disk, map(str, directories.values()))
    known = [identity.cluster_id for identity in found.values() if identity is not None]
    cluster_id = known[0] if known else uuid_to_text(random_uuid(random))
    for node_id, directory in directories.items():
        for _ in format_directories(
            disk, [str(directory)], cluster_id=cluster_id, node_id=node_id, random=random, ignore_formatted=True
        ):
            pass
    return cluster_id
