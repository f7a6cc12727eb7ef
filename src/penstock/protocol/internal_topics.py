"""The topics that belong to the cluster itself: their names, and what nobody may do with them from outside.

| name                  | what is in it                      | its logs belong to    | refused to clients            |
| --------------------- | ---------------------------------- | --------------------- | ----------------------------- |
| `__consumer_offsets`  | groups and their committed offsets | its replicas          | produce, delete records, grow |
| `__transaction_state` | transactions                       | its replicas          | the same                      |
| `__share_group_state` | positions of share groups          | its replicas          | the same                      |
| `__storage_group`     | a log for each storage group       | each group's driver   | all but to see and move it    |
| `__cluster_metadata`  | the metadata log                   | the quorum's driver   | all: it is no topic           |

The codes are Kafka's for its own names. Kafka's admin client may write to the first three. Kafka lets them grow, though
it follows from the number of their partitions who is in which: nobody would find what is there already. A topic called
`__cluster_metadata` may be in metadata that an earlier version wrote: it can be deleted, and nothing else.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final
from uuid import UUID

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
STORAGE_GROUPS: Final = "__storage_group"
"""Partition N is storage group N: its replicas are the voters, its log is the group's (decision 0309)."""
CLUSTER_METADATA: Final = "__cluster_metadata"
CLUSTER_METADATA_ID: Final = UUID(int=1)
"""The same in every cluster; no topic gets it."""


class Act(Enum):
    """The APIs by which clients do it."""

    CREATE = "CreateTopics"
    AUTO_CREATE = "creation by Metadata"
    ADD_PARTITIONS = "CreatePartitions"
    DELETE = "DeleteTopics"
    CONFIGURE = "DescribeConfigs, AlterConfigs, IncrementalAlterConfigs"
    MOVE = "AlterPartitionReassignments, ElectLeaders"
    USE = "Fetch, ListOffsets, OffsetForLeaderEpoch, DescribeProducers, AlterReplicaLogDirs, WriteTxnMarkers"
    PRODUCE = "Produce"
    DELETE_RECORDS = "DeleteRecords"


class Refusal(Value):
    code: ErrorCode
    reason: str


class InternalTopic(Value):
    """`has_replicas`: whether brokers hold its logs as those of any topic."""

    name: str
    refusals: Mapping[Act, Refusal]
    is_topic: bool = True
    has_replicas: bool = True


def _kept_by_the_cluster(name: str) -> InternalTopic:
    written = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by the cluster itself")
    placed = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} keeps its partitions: what is in it is found by them")
    return InternalTopic(name, {Act.PRODUCE: written, Act.DELETE_RECORDS: written, Act.ADD_PARTITIONS: placed})


def _storage_groups() -> InternalTopic:
    begun = f"the partitions of {STORAGE_GROUPS} are the storage groups: they begin as such, and none is ever deleted"
    managed = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, begun)
    # Clients look for a leader for a minute if the error tells them to; here it would never answer.
    for_nodes = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the log of a storage group is for nodes alone")
    return InternalTopic(
        STORAGE_GROUPS,
        {
            **dict.fromkeys((Act.CREATE, Act.AUTO_CREATE, Act.ADD_PARTITIONS, Act.DELETE), managed),
            **dict.fromkeys((Act.USE, Act.PRODUCE), for_nodes),
            Act.DELETE_RECORDS: managed,
        },
        has_replicas=False,
    )


def _cluster_metadata() -> InternalTopic:
    is_none = f"{CLUSTER_METADATA} is the log of the cluster's metadata, and no topic"
    unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, is_none)
    refusals: dict[Act, Refusal] = {act: unknown for act in Act if act is not Act.DELETE}
    refusals[Act.CREATE] = Refusal(ErrorCode.INVALID_REQUEST, is_none)
    return InternalTopic(CLUSTER_METADATA, refusals, is_topic=False, has_replicas=False)


INTERNAL_TOPICS: Final[Mapping[str, InternalTopic]] = {
    topic.name: topic
    for topic in (
        _kept_by_the_cluster(CONSUMER_OFFSETS),
        _kept_by_the_cluster(TRANSACTION_STATE),
        _kept_by_the_cluster(SHARE_GROUP_STATE),
        _storage_groups(),
        _cluster_metadata(),
    )
}


def is_internal(name: str) -> bool:
    known = INTERNAL_TOPICS.get(name)
    return known is not None and known.is_topic


def has_replicas(name: str) -> bool:
    """Whether brokers hold the logs of this topic; if not, they belong to a driver of the consensus core."""
    known = INTERNAL_TOPICS.get(name)
    return known is None or known.has_replicas


def refusal_of(name: str, act: Act) -> Refusal | None:
    """None if clients may do it."""
    known = INTERNAL_TOPICS.get(name)
    return None if known is None else known.refusals.get(act)


def check_allowed(name: str, act: Act) -> None:
    """Raises KafkaError."""
    refusal = refusal_of(name, act)
    if refusal is not None:
        raise KafkaError(refusal.code, refusal.reason)
