"""APIs of our own, beside Kafka's: their keys and messages.

Kafka has no request by which a person asks the active controller to go, or a node what it makes of the metadata. Keys
of our own start at 15000; ApiVersions names them only to clients that call themselves penstock, so that no client of
Kafka's ever sees one.
"""

from enum import IntEnum
from typing import Final
from uuid import UUID

from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID

FIRST_OWN_KEY: Final = 15_000
"""Keys of our own start here and are not told to strangers."""

OWN_SOFTWARE: Final = "penstock"
"""What our own clients call themselves in ApiVersions."""


class OwnApiKey(IntEnum):
    """The number of each API of our own."""

    RESIGN_CONTROLLER = 15_000
    DESCRIBE_METADATA = 15_001
    DESCRIBE_METRICS = 15_002
    DESCRIBE_COMPACTION = 15_003
    BALANCE_LEADERS = 15_004
    HAND_OVER_LEADER = 15_005
    CLAIM_STORAGE_GROUP = 15_006
    CREATE_STORAGE_GROUP = 15_007
    FORWARD_TO_COORDINATOR = 15_008


OWN_APIS: Final[dict[int, tuple[str, str, int, int, int]]] = {
    15_000: ("own_apis", "ResignController", 0, 0, 0),
    15_001: ("own_apis", "DescribeMetadata", 0, 0, 0),
    15_002: ("own_apis", "DescribeMetrics", 0, 0, 0),
    15_003: ("own_apis", "DescribeCompaction", 0, 0, 0),
    15_004: ("own_apis", "BalanceLeaders", 0, 0, 0),
    15_005: ("own_apis", "HandOverLeader", 0, 0, 0),
    15_006: ("own_apis", "ClaimStorageGroup", 0, 0, 0),
    15_007: ("own_apis", "CreateStorageGroup", 0, 0, 0),
    15_008: ("own_apis", "ForwardToCoordinator", 0, 0, 0),
}
"""By key: module, name, oldest version, newest version, oldest flexible version; as `messages.index.APIS`."""


class ResignControllerRequest(Message, versions="0-0", flexible="0+"):
    """Lead the metadata quorum no longer. Only the active controller of `leader_epoch` does so.

    `successor_id` is asked to stand first; -1 leaves it to the log ends. The epoch makes it safe to ask again.
    """

    leader_epoch: int = field("int32", "0+", default=-1)
    successor_id: int = field("int32", "0+", default=-1)


class ResignControllerResponse(Message, versions="0-0", flexible="0+"):
    """NONE as soon as it has resigned; NOT_CONTROLLER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH where it leads no
    such epoch; INVALID_REQUEST where the successor is no other voter.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


class DescribeMetadataRequest(Message, versions="0-0", flexible="0+"):
    """What has this very node made of the metadata log? It is answered by each node for itself."""


class DescribeMetadataResponse(Message, versions="0-0", flexible="0+"):
    """The offset of the last record that the node has applied, its epoch, and a hash of all that is so then.

    Two nodes that have applied the same offset have the same `checksum`.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    node_id: int = field("int32", "0+", default=-1)
    offset: int = field("int64", "0+", default=-1)
    epoch: int = field("int32", "0+", default=-1)
    checksum: str = field("string", "0+", default="")


class DescribeMetricsRequest(Message, versions="0-0", flexible="0+"):
    """What does this very node say of itself in numbers? It is answered by each node for itself."""


class Metric(Message, versions="0-0", flexible="0+"):
    """One metric, by Kafka's names: that of its group, and its own. `value` is a number or a word."""

    group: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")
    value: str = field("string", "0+", default="")


class DescribeMetricsResponse(Message, versions="0-0", flexible="0+"):
    """All metrics, in an order that stays."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    node_id: int = field("int32", "0+", default=-1)
    metrics: list[Metric] = array(Metric, "0+", default_factory=list)


class DescribeCompactionRequest(Message, versions="0-0", flexible="0+"):
    """How far are the compacted logs of this very node? It is answered by each broker for itself."""


class CompactedLog(Message, versions="0-0", flexible="0+"):
    """One log whose topic is compacted. `dirty_percent` of it is yet to be compacted, -1 where that is not known;
    `cleaned_ms` is when it was compacted last, -1 if that was not since the node started; `problem` says why it is not.
    """

    topic: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=-1)
    dirty_percent: int = field("int32", "0+", default=-1)
    cleaned_ms: int = field("int64", "0+", default=-1)
    problem: str | None = field("string", "0+", nullable="0+", default=None)


class DescribeCompactionResponse(Message, versions="0-0", flexible="0+"):
    """All of them, in no order."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    logs: list[CompactedLog] = array(CompactedLog, "0+", default_factory=list)


class BalanceAction(IntEnum):
    """What the controller's balancer of leaders is to do."""

    TELL = 0
    BEGIN = 1
    STOP = 2


class BalanceLeadersRequest(Message, versions="0-0", flexible="0+"):
    """Lead what should be led; `action` is a BalanceAction, and STOP lets no further partition move."""

    action: int = field("int8", "0+", default=0)
    timeout_ms: int = field("int32", "0+", default=60_000)


class BalanceLeadersResponse(Message, versions="0-0", flexible="0+"):
    """Where the balancer of the active controller is.

    `moved` counts the moves that have ended since it rested last. The move that is under way, if there is one, is that
    of `topic` and `partition` from `giver` to `taker`. `under_replicated` partitions keep it waiting, and the `late`
    brokers get nothing, as they did not take over in time.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    is_balancing: bool = field("bool", "0+", default=False)
    moved: int = field("int32", "0+", default=0)
    topic: str | None = field("string", "0+", nullable="0+", default=None)
    partition: int = field("int32", "0+", default=-1)
    giver: int = field("int32", "0+", default=-1)
    taker: int = field("int32", "0+", default=-1)
    under_replicated: int = field("int32", "0+", default=0)
    late: list[int] = array("int32", "0+", default_factory=list)


class HandOverLeaderRequest(Message, versions="0-0", flexible="0+"):
    """A broker has handed over what it leads: `successor` is to lead. Without a successor it asks what it should, or
    says that it is stopping: from then on it may hand over all that it leads to whom it names.

    The epochs are those that the broker knows, so that it is safe to ask again.
    """

    broker_id: int = field("int32", "0+", default=-1)
    broker_epoch: int = field("int64", "0+", default=-1)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    partition_epoch: int = field("int32", "0+", default=-1)
    successor: int = field("int32", "0+", default=-1)
    is_stopping: bool = field("bool", "0+", default=False)


class HandOverLeaderResponse(Message, versions="0-0", flexible="0+"):
    """NONE if that has come about, or nothing was asked for; FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION where the
    partition has changed; INVALID_REQUEST where the broker is not to hand that over, or no longer.

    What is to be handed over next: `topic_id` and `partition`, in this leader epoch, to `successor`; -1 if nothing is.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    successor: int = field("int32", "0+", default=-1)


class GroupVoter(Message, versions="0-0", flexible="0+"):
    """A voter of a storage group, and the directory in which it has the group's log."""

    voter_id: int = field("int32", "0+", default=-1)
    directory_id: UUID = field("uuid", "0+", default=ZERO_UUID)


class ClaimStorageGroupRequest(Message, versions="0-0", flexible="0+"):
    """The leader of a storage group says that it leads, in this epoch of the group's log, and who has caught up.

    It asks when it begins to lead, and again until the metadata name it; and when the brokers that have caught up are
    others than the metadata name, those apart that are fenced or on their way out, which cannot be in sync; and when
    other replicas vote, as a majority has agreed, than the metadata say. No `voters` leaves those as they are.
    `partition_epoch` is that of the group's partition as the leader knows it: who shall vote may have changed since.
    """

    broker_id: int = field("int32", "0+", default=-1)
    broker_epoch: int = field("int64", "0+", default=-1)
    group: int = field("int32", "0+", default=-1)
    group_epoch: int = field("int32", "0+", default=-1)
    caught_up: list[int] = array("int32", "0+", default_factory=list)
    voters: list[GroupVoter] = array(GroupVoter, "0+", default_factory=list)
    partition_epoch: int = field("int32", "0+", default=-1)


class ClaimStorageGroupResponse(Message, versions="0-0", flexible="0+"):
    """NONE if the metadata say so, or will in a moment; STALE_BROKER_EPOCH where the broker is not registered so;
    UNKNOWN_TOPIC_OR_PARTITION where there is no such group; NOT_LEADER_OR_FOLLOWER where it is no replica of it;
    INELIGIBLE_REPLICA while it is fenced; FENCED_LEADER_EPOCH where the controller has heard of a later leader;
    REQUEST_TIMED_OUT where so many partitions are in the group that it has to ask again.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


class CreateStorageGroupRequest(Message, versions="0-0", flexible="0+"):
    """A new storage group: with so many replicas, or with these; -1 is the cluster's default."""

    replication_factor: int = field("int16", "0+", default=-1)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    timeout_ms: int = field("int32", "0+", default=60_000)


class CreateStorageGroupResponse(Message, versions="0-0", flexible="0+"):
    """The number that the group has got, and its replicas; or why there is none."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    group: int = field("int32", "0+", default=-1)
    replicas: list[int] = array("int32", "0+", default_factory=list)


class ForwardToCoordinatorRequest(Message, versions="0-0", flexible="0+"):
    """What was asked of the coordinator of a partition, sent on to its successor, which leads in this epoch.

    `envelope` is the bytes of an EnvelopeRequest, version 0. Without one: answer when you serve.
    """

    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    envelope: bytes | None = field("bytes", "0+", nullable="0+", default=None)


class ForwardToCoordinatorResponse(Message, versions="0-0", flexible="0+"):
    """The answer for the client, as the bytes of an EnvelopeResponse, version 0; without a question NONE, or
    NOT_COORDINATOR where this broker does not serve that partition, or not in time.
    """

    error_code: int = field("int16", "0+", default=0)
    envelope: bytes | None = field("bytes", "0+", nullable="0+", default=None)
