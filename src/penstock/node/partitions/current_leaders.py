"""Who leads instead, for clients that asked a node that does not lead, or not in their epoch any more (KIP-951)."""

from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.protocol.requests.topic_answers import NodeEndpoint

UNKNOWN = (-1, -1)


def current_leader(image: ClusterImage, topic: str | UUID, index: int) -> tuple[int, int]:
    """The leader of a partition and its epoch as the metadata know them; -1 for what they do not."""
    known = image.topics_by_id.get(topic) if isinstance(topic, UUID) else image.topics.get(topic)
    partition = None if known is None else known.partitions.get(index)
    return UNKNOWN if partition is None else (partition.leader, partition.leader_epoch)


def endpoints_of(image: ClusterImage, listener: str, leaders: list[tuple[int, int]]) -> list[NodeEndpoint]:
    """Where clients of a listener find these leaders, each once, as far as they can be reached."""
    found: list[NodeEndpoint] = []
    for node_id in dict.fromkeys(node_id for node_id, _ in leaders):
        broker = image.brokers.get(node_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            found.append(NodeEndpoint(node_id, endpoint.host, endpoint.port, broker.rack))
    return found
