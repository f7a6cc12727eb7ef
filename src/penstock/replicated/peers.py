"""What nodes, and an administrator, ask a node by Kafka's own protocol: the APIs that are about the quorum itself.

They are those of Penstock's controllers, whose handlers do not care what it is that the quorum replicates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.metadata.image import ClusterImage
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.handler import CONTROLLER_HANDLERS, Handler, load_handlers
from penstock.node.serving.slices import Slices
from penstock.protocol.requests.api import ApiKey
from penstock.raft.log_name import METADATA_LOG, LogName

SERVED: Final = (
    ApiKey.FETCH,
    ApiKey.API_VERSIONS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)


@dataclass(slots=True)
class QuorumPeer:
    """What those handlers see of a node."""

    cluster_id: str
    quorum: QuorumDriver
    image: ClusterImage
    """Of Kafka's metadata there is none here."""
    handlers: Mapping[int, Handler]
    authorizer: Authorizer = ALLOW_ALL
    log: LogName = METADATA_LOG
    slices: Slices = field(default_factory=Slices)
    gone: dict[int, Callable[[], None]] = field(default_factory=dict)


def quorum_peer(quorum: QuorumDriver, cluster_id: str) -> QuorumPeer:
    """A node, as the others see it."""
    table = load_handlers(CONTROLLER_HANDLERS)
    return QuorumPeer(cluster_id, quorum, ClusterImage(cluster_id), {key: table[key] for key in SERVED})
