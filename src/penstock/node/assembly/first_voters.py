"""The first voters of a metadata quorum whose voters may change: how a node is told of them when it is formatted.

`storage format` writes them into a snapshot of a log that has no records yet, as Apache Kafka's tool does (KIP-853),
with the levels of the features that the cluster is to begin with. What such a snapshot says of metadata is a wish: the
first active controller writes it to the log, so that nodes that never saw this snapshot hear of it, too.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.log.disk import Disk
from penstock.log.names import partition_directory
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.voters import InitialController
from penstock.metadata.features import NEWEST_METADATA_VERSION, first_levels
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.snapshot import encode_snapshot, snapshot_name
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.raft.control import quorums_in, snapshot_header_records
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter

NEWEST_LEVELS = tuple(
    FeatureLevelRecord(name=name, feature_level=level) for name, level in first_levels(NEWEST_METADATA_VERSION).items()
)
"""What a cluster begins with by default."""

FIRST_SNAPSHOT = SnapshotId(0, 0)
FIRST_SNAPSHOT_NAME = snapshot_name(FIRST_SNAPSHOT.end_offset, FIRST_SNAPSHOT.epoch)


def standalone(config: BrokerConfig, directory_id: UUID) -> dict[int, InitialController]:
    """A quorum of this controller alone, with the address that its first listener for controllers advertises."""
    listener = config.advertised_controller_listeners[0]
    node_id = config.node_id
    return {node_id: InitialController(node_id, listener.host or "localhost", listener.port, directory_id)}


def first_snapshot(
    controllers: Mapping[int, InitialController],
    listener_name: str,
    now_ms: int,
    records: Sequence[MetadataRecord] = NEWEST_LEVELS,
) -> bytes:
    """The snapshot that names these voters, if any, and holds what the cluster is to begin with."""
    quorum = (
        Quorum()
        if not controllers
        else Quorum.of(
            Voter(
                ReplicaKey(controller.node_id, controller.directory_id),
                (Endpoint(listener_name, controller.host, controller.port),),
            )
            for controller in controllers.values()
        )
    )
    chunks = encode_snapshot(
        records,
        leader_epoch=FIRST_SNAPSHOT.epoch,
        last_timestamp_ms=now_ms,
        now_ms=now_ms,
        header=snapshot_header_records(quorum, now_ms, now_ms),
    )
    return b"".join(chunks)


def read_first_voters(disk: Disk, metadata_path: str) -> dict[int, InitialController]:
    """The voters that a formatted directory was told of; none if it has no such snapshot (any more). Raises DecodeError
    for one that is damaged.
    """
    path = f"{metadata_path}/{partition_directory(CLUSTER_METADATA, 0)}/{FIRST_SNAPSHOT_NAME}"
    quorum = Quorum()
    for _, named in quorums_in(disk.read_file(path) or b"", quorum):
        quorum = named
    found = {}
    for voter in quorum.voters:
        host, port = (voter.endpoints[0].host, voter.endpoints[0].port) if voter.endpoints else ("", 0)
        found[voter.key.id] = InitialController(voter.key.id, host, port, voter.key.directory_id)
    return found
