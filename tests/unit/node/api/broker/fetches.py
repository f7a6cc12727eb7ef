"""Fetches of one partition, in a test's words."""

from __future__ import annotations

from tests.unit.node.on_disk import TOPIC_ID, Node

from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)


def fetch_of(
    offset: int,
    *,
    index: int = 0,
    leader_epoch: int = -1,
    log_start_offset: int = -1,
    replica: int = -1,
    rack: str = "",
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """A fetch of one partition from an offset on."""
    wanted = FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=leader_epoch,
        log_start_offset=log_start_offset,
    )
    return FetchRequest(
        replica_id=replica,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=[wanted])],
        rack_id=rack,
    )


def told(node: Node, asked: FetchRequest, version: int = 18) -> FetchResponse:
    """The answer to a fetch that need not wait."""
    answer = node.ask(asked, version)
    assert isinstance(answer, FetchResponse)
    return answer


def told_of(answer: FetchResponse) -> PartitionData:
    """What an answer says of its only partition."""
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition
