"""How the nodes of a cluster for tests are laid out: roles, ids, ports, directories, and a quorum that elects fast."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final, Protocol

from penstock.log.directories.formatting import format_directories, identities, write_first_snapshot
from penstock.log.disk import Disk
from penstock.log.names import partition_directory
from penstock.metadata.configs.voters import BOOTSTRAP_KEY, VOTERS_KEY, InitialController
from penstock.metadata.records import MetadataRecord
from penstock.node.assembly.first_voters import (
    FIRST_SNAPSHOT_NAME,
    NEWEST_LEVELS,
    first_snapshot,
    read_first_voters,
)
from penstock.protocol.address import parse_address
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.uuids import random_uuid, uuid_to_text
from penstock.protocol.value import Value
from penstock.testing.cluster_node import ClusterNode
from penstock.testing.network import Network
from penstock.testing.ports import LOOPBACK, ReservedPort

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

PATIENT_QUORUM: Final[dict[str, str]] = {
    "controller.quorum.fetch.timeout.ms": "60000",
    "broker.session.timeout.ms": "60000",
}
"""What nodes that neither die nor hang have instead: on a busy machine one that is slow is not taken for dead."""

MOST_REPLICAS: Final = 3

IN_THE_CLEAR: Final[Mapping[str, Sequence[str]]] = {"broker": ("PLAINTEXT",), "controller": ("CONTROLLER",)}
"""The listeners of each role; clients come to the first one."""


class Secured(Protocol):
    """What makes the cluster a secured one."""

    @property
    def listeners(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def records(self) -> Sequence[MetadataRecord]: ...
    @property
    def common(self) -> Mapping[str, str]: ...

    def settings_of(self, node_id: int) -> Mapping[str, str]: ...


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
    BOOTSTRAP_KEY,
)
"""Keys that differ from node to node, or must fit together: the cluster sets them itself."""


class Layout(Value):
    roles: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, nodes: int, brokers: int | None, controllers: int | None, config: Mapping[str, str]) -> Layout:
        """From the arguments of `Cluster`. Raises ValueError."""
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
        self,
        directory: Path,
        defaults: Mapping[str, str],
        config: Mapping[str, str],
        *,
        process: bool,
        dynamic_voters: bool = False,
        network: Network | None = None,
        secured: Secured | None = None,
    ) -> tuple[ClusterNode, ...]:
        """Take ports and format directories; `config` goes before `defaults`, `network` before each listener.

        Only a process can be killed or paused: what runs in a thread is given time.
        """
        listeners = IN_THE_CLEAR if secured is None else secured.listeners
        brokers = sum("broker" in roles for roles in self.roles.values())
        quorum = QUICK_QUORUM if process else QUICK_QUORUM | PATIENT_QUORUM
        of_all = dict(secured.common) if secured is not None else {}
        common = dict(defaults) | quorum | replica_settings(brokers) | of_all | dict(config)
        ports = {node_id: dict(_ports(roles, listeners)) for node_id, roles in self.roles.items()}
        reached = {node_id: _reached(node_id, own, network) for node_id, own in ports.items()}
        controllers = {node_id: own["CONTROLLER"] for node_id, own in reached.items() if "CONTROLLER" in own}
        directories = {node_id: directory / f"node-{node_id}" for node_id in self.roles}
        records = NEWEST_LEVELS if secured is None else secured.records
        format_as_one_cluster(directories, controllers if dynamic_voters else None, records)
        common |= voters_settings(controllers, dynamic=dynamic_voters)
        of_clients = listeners["broker"][0]
        return tuple(
            ClusterNode(
                node_id,
                common
                | {
                    "process.roles": ",".join(roles),
                    "node.id": str(node_id),
                    "listeners": ",".join(f"{name}://{port.address}" for name, port in ports[node_id].items()),
                    "advertised.listeners": ",".join(f"{name}://{where}" for name, where in reached[node_id].items()),
                    "log.dirs": str(directories[node_id]),
                    **({} if secured is None else secured.settings_of(node_id)),
                },
                directory=directories[node_id],
                process=process,
                ports=tuple(ports[node_id].values()),
                address=reached[node_id].get(of_clients),
                controller_address=reached[node_id].get("CONTROLLER"),
            )
            for node_id, roles in self.roles.items()
        )


def replica_settings(brokers: int) -> dict[str, str]:
    """As many replicas of each partition as brokers, up to three; two of three must have what is sent with acks=all."""
    replicas, in_sync = str(min(brokers, MOST_REPLICAS)), "2" if brokers >= MOST_REPLICAS else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def voters_settings(controllers: Mapping[int, str], *, dynamic: bool) -> dict[str, str]:
    if dynamic:
        own = {BOOTSTRAP_KEY: ",".join(controllers.values())}
    else:
        own = {VOTERS_KEY: ",".join(f"{node_id}@{address}" for node_id, address in controllers.items())}
    return own | {"controller.listener.names": "CONTROLLER"}


def _ports(roles: tuple[str, ...], listeners: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ReservedPort]]:
    for role in ("broker", "controller"):
        if role in roles:
            yield from ((name, ReservedPort()) for name in listeners[role])


def _reached(node_id: int, ports: Mapping[str, ReservedPort], network: Network | None) -> dict[str, str]:
    """The address that others use for each listener of a node."""
    if network is None:
        return {name: port.address for name, port in ports.items()}
    return {name: f"{LOOPBACK}:{network.open(node_id, port.port)}" for name, port in ports.items()}


def format_as_one_cluster(
    directories: Mapping[int, Path],
    first_voters: Mapping[int, str] | None = None,
    records: Sequence[MetadataRecord] = NEWEST_LEVELS,
) -> str:
    """By node id; directories that are formatted already stay as they are.

    With `first_voters` (addresses by node id) voters may change later (KIP-853), and these are the first ones.
    `records` are what the cluster begins with. Returns the cluster's id.
    Raises LogDirectoryError where the directories cannot belong together, DecodeError for damage.
    """
    disk, random = Disk(), SystemRandom()
    paths = {node_id: str(directory) for node_id, directory in directories.items()}
    known = {path: identity for path, identity in identities(disk, paths.values()).items() if identity is not None}
    cluster_id = next((identity.cluster_id for identity in known.values()), uuid_to_text(random_uuid(random)))
    voters = _voters(disk, random, known, first_voters or {})
    listener, now_ms = "CONTROLLER" if voters else "", time.time_ns() // 1_000_000
    snapshot = first_snapshot(voters, listener, now_ms, records) if voters or records is not NEWEST_LEVELS else None
    for node_id, path in paths.items():
        if path in known:
            continue
        if snapshot is not None and (node_id in voters or not voters):
            write_first_snapshot(disk, path, FIRST_SNAPSHOT_NAME, snapshot)
        ids = {path: voters[node_id].directory_id} if node_id in voters else {}
        for _ in format_directories(
            disk, [path], cluster_id=cluster_id, node_id=node_id, random=random, directory_ids=ids
        ):
            pass
    return cluster_id


def _voters(
    disk: Disk, random: SystemRandom, known: Collection[str], first_voters: Mapping[int, str]
) -> dict[int, InitialController]:
    """The first voters to write down: none when a node has run already.

    A directory that is missing then is a lost disk, which has forgotten its votes: with a new id it is no voter.
    """
    for path in known:
        if set(disk.names(f"{path}/{partition_directory(CLUSTER_METADATA, 0)}")) - {FIRST_SNAPSHOT_NAME}:
            return {}
    for path in known:  # formatting was interrupted
        if found := read_first_voters(disk, path):
            return found
    return {
        node_id: InitialController(node_id, *parse_address(address), random_uuid(random))
        for node_id, address in first_voters.items()
    }
