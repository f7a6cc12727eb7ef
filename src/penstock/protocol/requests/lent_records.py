"""Answers to Fetch that leave records in the frame they came in, for consumers and followers.

Where the frame is large it is lent to them; else they are good as long as its buffer is.
"""

from uuid import UUID

from penstock.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.schema import Message, array, field, struct
from penstock.protocol.uuids import ZERO_UUID


class LentPartition(Message):
    """`PartitionData` but for the snapshot of a metadata log."""

    partition_index: int = field("int32", "4+", default=0)
    error_code: int = field("int16", "4+", default=0)
    high_watermark: int = field("int64", "4+", default=0)
    last_stable_offset: int = field("int64", "4+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0, default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1, default_factory=LeaderIdAndEpoch)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", default_factory=list
    )
    preferred_read_replica: int = field("int32", "11+", default=-1)
    records: memoryview | None = field("slice", "4+", nullable="4+", default=None)


class LentTopic(Message):
    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    topic: str = field("string", "4-12", default="")
    partitions: list[LentPartition] = array(LentPartition, "4+", default_factory=list)


class LentFetchResponse(Message, versions="4-18", flexible="12+"):
    throttle_time_ms: int = field("int32", "4+", default=0)
    error_code: int = field("int16", "7+", default=0)
    session_id: int = field("int32", "7+", default=0)
    responses: list[LentTopic] = array(LentTopic, "4+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, default_factory=list)
