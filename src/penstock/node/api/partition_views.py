"""Partitions as a client of one listener sees them: who leads, and what it has to know if nobody does."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from penstock.metadata.image import NOBODY, BrokerImage, ClusterImage, Endpoint, PartitionImage
from penstock.metadata.topics import is_online
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.topic_answers import NodeEndpoint

UNKNOWN_LEADER = (-1, -1)


class ListenerView:
    """The brokers that a listener's clients can reach. Made for one request; its cost is that of the brokers."""

    __slots__ = ("_active", "_lists", "_offline", "reachable")

    def __init__(self, image: ClusterImage, listener: str) -> None:
        self._active = {node: broker for node, broker in image.brokers.items() if not broker.fenced}
        self._offline: dict[tuple[int, int], list[int]] = {}
        self._lists: dict[Sequence[int], list[int]] = {}
        self.reachable: dict[int, tuple[BrokerImage, Endpoint]] = {
            node: (broker, endpoint)
            for node, broker in sorted(self._active.items())
            if (endpoint := broker.endpoint(listener)) is not None
        }

    def leader(self, partition: PartitionImage) -> tuple[int, ErrorCode]:
        """The leader, if clients can reach it; else NOBODY, and why."""
        if partition.leader in self.reachable:
            return partition.leader, ErrorCode.NONE
        if partition.leader in self._active:
            return NOBODY, ErrorCode.LISTENER_NOT_FOUND
        return NOBODY, ErrorCode.LEADER_NOT_AVAILABLE

    def offline(self, partition: PartitionImage) -> list[int]:
        """The replicas whose brokers are not there, or whose log directories failed (KIP-858)."""
        key = id(partition.replicas), id(partition.directories)  # the image shares them between partitions
        known = self._offline.get(key)
        if known is None:
            known = self._offline[key] = [
                replica
                for replica in partition.replicas
                if replica not in self._active
                or not is_online(partition.directory_of(replica), self._active[replica].directories)
            ]
        return known

    def list_of(self, nodes: Sequence[int]) -> list[int]:
        """As an answer has them; one list for all partitions of the same nodes, else most of a long answer is lists."""
        known = self._lists.get(nodes)
        if known is None:
            known = self._lists[nodes] = list(nodes)
        return known

    def controller_id(self, active_id: int, own_id: int) -> int:
        """The broker for requests that only the controller can do; every broker hands them on (KIP-590).

        That is the active controller itself, if it answers and is a broker that clients can reach, and else the broker
        that is asked, for clients may wait for a node that they were named until it comes back (librdkafka does).
        NOBODY, if that one cannot be reached either.
        """
        return next((node for node in (active_id, own_id) if node in self.reachable), NOBODY)


def current_leader(image: ClusterImage, topic: str | UUID, index: int) -> tuple[int, int]:
    """The leader of a partition and its epoch as the metadata know them; -1 for what they do not.

    For clients that asked a node that does not lead, or no longer in their epoch (KIP-951).
    """
    known = image.topics_by_id.get(topic) if isinstance(topic, UUID) else image.topics.get(topic)
    partition = None if known is None else known.partitions.get(index)
    return UNKNOWN_LEADER if partition is None else (partition.leader, partition.leader_epoch)


def endpoints_of(image: ClusterImage, listener: str, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Where clients of a listener find these leaders, as far as they can be reached."""
    found: list[NodeEndpoint] = []
    for node_id in leaders:
        broker = image.brokers.get(node_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            found.append(NodeEndpoint(node_id, endpoint.host, endpoint.port, broker.rack))
    return found
