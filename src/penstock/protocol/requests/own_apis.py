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
"""Only our own clients are told of keys from here on."""

OWN_SOFTWARE: Final = "penstock"


class OwnApiKey(IntEnum):
    RESIGN_CONTROLLER = 15_000
    DESCRIBE_METADATA = 15_001
    DESCRIBE_METRICS = 15_002
    DESCRIBE_COMPACTION = 15_003
    BALANCE_LEADERS = 15_004
    HAND_OVER_LEADER = 15_005
    CLAIM_STORAGE_GROUP = 15_006
    CREATE_STORAGE_GROUP = 15_007
    FORWARD_TO_COORDINATOR = 15_008
    COMMITTED_POSITIONS = 15_009
    DESCRIBE_HOLDERS = 15_010
    DESCRIBE_GROUP_HISTORY = 15_011
    DESCRIBE_SHARE_PARTITIONS = 15_012


_ELSEWHERE: Final = {OwnApiKey.DESCRIBE_SHARE_PARTITIONS: "share_progress"}
"""Modules with messages that are not here."""

OWN_APIS: Final[dict[int, tuple[str, str, int, int, int]]] = {
    int(key): (_ELSEWHERE.get(key, "own_apis"), key.name.title().replace("_", ""), 0, 0, 0) for key in OwnApiKey
}
"""By key: module, name, oldest version, newest version, oldest flexible version; as `messages.index.APIS`."""


class ResignControllerRequest(Message, versions="0-0", flexible="0+"):
    """Only the active controller of `leader_epoch` resigns, so that it is safe to ask again. `successor_id` is asked to
    stand first; -1 leaves it to the log ends.
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
    """Each node answers for itself."""


class DescribeMetadataResponse(Message, versions="0-0", flexible="0+"):
    """`checksum` is a hash of the metadata at the last applied offset: nodes with the same offset have the same one."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    node_id: int = field("int32", "0+", default=-1)
    offset: int = field("int64", "0+", default=-1)
    epoch: int = field("int32", "0+", default=-1)
    checksum: str = field("string", "0+", default="")


class DescribeMetricsRequest(Message, versions="0-0", flexible="0+"):
    """Each node answers for itself. `of_the_whole`: without what has labels, as each topic has."""

    of_the_whole: bool = field("bool", "0+", default=False, tag=0, tagged="0+")


class Metric(Message, versions="0-0", flexible="0+"):
    """Kafka's names; `value` is a number or a word."""

    group: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")
    value: str = field("string", "0+", default="")


class DescribeMetricsResponse(Message, versions="0-0", flexible="0+"):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    node_id: int = field("int32", "0+", default=-1)
    metrics: list[Metric] = array(Metric, "0+", default_factory=list)


class DescribeCompactionRequest(Message, versions="0-0", flexible="0+"):
    """Each broker answers for itself."""


class CompactedLog(Message, versions="0-0", flexible="0+"):
    """`dirty_percent` and `cleaned_ms` (of the last compaction since the node started) are -1 if unknown; `problem`
    says why the log is not compacted.
    """

    topic: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=-1)
    dirty_percent: int = field("int32", "0+", default=-1)
    cleaned_ms: int = field("int64", "0+", default=-1)
    problem: str | None = field("string", "0+", nullable="0+", default=None)


class DescribeCompactionResponse(Message, versions="0-0", flexible="0+"):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    logs: list[CompactedLog] = array(CompactedLog, "0+", default_factory=list)


class BalanceAction(IntEnum):
    TELL = 0
    BEGIN = 1
    STOP = 2


class BalanceLeadersRequest(Message, versions="0-0", flexible="0+"):
    """`action` is a BalanceAction: STOP lets no further partition move."""

    action: int = field("int8", "0+", default=0)
    timeout_ms: int = field("int32", "0+", default=60_000)


class BalanceLeadersResponse(Message, versions="0-0", flexible="0+"):
    """`moved` counts the moves that have ended since the balancer rested last. A move that is under way is that of
    `topic` and `partition` from `giver` to `taker`. Partitions with replicas that are `catching_up` keep the balancer
    waiting, and `late` brokers get no leaders, as they did not take over in time.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    is_balancing: bool = field("bool", "0+", default=False)
    moved: int = field("int32", "0+", default=0)
    topic: str | None = field("string", "0+", nullable="0+", default=None)
    partition: int = field("int32", "0+", default=-1)
    giver: int = field("int32", "0+", default=-1)
    taker: int = field("int32", "0+", default=-1)
    catching_up: int = field("int32", "0+", default=0)
    late: list[int] = array("int32", "0+", default_factory=list)


class HandOverLeaderRequest(Message, versions="0-0", flexible="0+"):
    """A broker has handed over a partition that it leads: `successor` is to lead. Without a successor it asks what to
    hand over, or says that it is stopping: from then on it may hand over all its partitions to successors of its
    choice. So it may with a partition for which its disk `has_no_room`. The epochs are those that the broker knows, so
    that it is safe to ask again.
    """

    broker_id: int = field("int32", "0+", default=-1)
    broker_epoch: int = field("int64", "0+", default=-1)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    partition_epoch: int = field("int32", "0+", default=-1)
    successor: int = field("int32", "0+", default=-1)
    is_stopping: bool = field("bool", "0+", default=False)
    has_no_room: bool = field("bool", "0+", default=False)


class HandOverLeaderResponse(Message, versions="0-0", flexible="0+"):
    """NONE if the successor leads, or nothing was asked for; FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION where the
    partition has changed; INVALID_REQUEST where the broker is not to hand that over, or no longer. Next to hand over:
    `topic_id` and `partition`, in this leader epoch, to `successor`; -1 for none.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    successor: int = field("int32", "0+", default=-1)


class GroupVoter(Message, versions="0-0", flexible="0+"):
    voter_id: int = field("int32", "0+", default=-1)
    directory_id: UUID = field("uuid", "0+", default=ZERO_UUID)


class ClaimStorageGroupRequest(Message, versions="0-0", flexible="0+"):
    """The leader of a storage group names itself, the epoch of the group's log, and the brokers that have caught up. It
    asks when it begins to lead, and again until the metadata name it; and when the brokers that have caught up differ
    from those in the metadata, except brokers that are fenced or shutting down, which cannot be in sync; and when the
    voters that a majority has agreed on differ from those in the metadata. No `voters` leaves those as they are.
    `partition_epoch` is that of the group's partition as the leader knows it: its voters may have changed since.
    """

    broker_id: int = field("int32", "0+", default=-1)
    broker_epoch: int = field("int64", "0+", default=-1)
    group: int = field("int32", "0+", default=-1)
    group_epoch: int = field("int32", "0+", default=-1)
    caught_up: list[int] = array("int32", "0+", default_factory=list)
    voters: list[GroupVoter] = array(GroupVoter, "0+", default_factory=list)
    partition_epoch: int = field("int32", "0+", default=-1)


class ClaimStorageGroupResponse(Message, versions="0-0", flexible="0+"):
    """NONE if the metadata say so, or will in a moment; STALE_BROKER_EPOCH for an old registration of the broker;
    UNKNOWN_TOPIC_OR_PARTITION for an unknown group; NOT_LEADER_OR_FOLLOWER where the broker is no replica of it;
    INELIGIBLE_REPLICA while it is fenced; FENCED_LEADER_EPOCH where the controller has heard of a later leader;
    REQUEST_TIMED_OUT where the group has so many partitions that the leader has to ask again.
    """

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


class CreateStorageGroupRequest(Message, versions="0-0", flexible="0+"):
    """A number of replicas, or these; -1 is the cluster's default."""

    replication_factor: int = field("int16", "0+", default=-1)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    timeout_ms: int = field("int32", "0+", default=60_000)


class CreateStorageGroupResponse(Message, versions="0-0", flexible="0+"):
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    group: int = field("int32", "0+", default=-1)
    replicas: list[int] = array("int32", "0+", default_factory=list)


class ForwardToCoordinatorRequest(Message, versions="0-0", flexible="0+"):
    """The coordinator of a partition sends a request on to its successor, which leads in this epoch. `envelope` is an
    encoded EnvelopeRequest, version 0. Without one: answer when you serve. `key_type` says what is coordinated, as
    FindCoordinator counts it.
    """

    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    envelope: bytes | None = field("bytes", "0+", nullable="0+", default=None)
    key_type: int = field("int8", "0+", default=0, tag=0, tagged="0+")


class ForwardToCoordinatorResponse(Message, versions="0-0", flexible="0+"):
    """An encoded EnvelopeResponse, version 0; without a request NONE, or NOT_COORDINATOR where this broker does not
    serve that partition, or not in time.
    """

    error_code: int = field("int16", "0+", default=0)
    envelope: bytes | None = field("bytes", "0+", nullable="0+", default=None)


class CommittedPositionsRequest(Message, versions="0-0", flexible="0+"):
    """A leader asks a coordinator what groups have committed in a topic. `key_type` says what is coordinated, as
    FindCoordinator counts it.
    """

    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    key_type: int = field("int8", "0+", default=0)


class PositionOfGroup(Message, versions="0-0", flexible="0+"):
    partition: int = field("int32", "0+", default=-1)
    offset: int = field("int64", "0+", default=-1)


class PositionsOfGroup(Message, versions="0-0", flexible="0+"):
    """A group that reads the topic, or has offsets in it."""

    group_id: str = field("string", "0+", default="")
    positions: list[PositionOfGroup] = array(PositionOfGroup, "0+", default_factory=list)


class CoordinatedPositions(Message, versions="0-0", flexible="0+"):
    """Of the groups of one partition of the coordinator's topic, which it leads in this epoch."""

    partition: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    groups: list[PositionsOfGroup] = array(PositionsOfGroup, "0+", default_factory=list)


class CommittedPositionsResponse(Message, versions="0-0", flexible="0+"):
    """`partition_count` is that of the coordinator's topic. What the broker does not coordinate, or not yet, is left
    out. UNKNOWN_TOPIC_ID where it has not heard of the topic; COORDINATOR_NOT_AVAILABLE where it coordinates nothing of
    that type.
    """

    error_code: int = field("int16", "0+", default=0)
    partition_count: int = field("int32", "0+", default=0)
    coordinated: list[CoordinatedPositions] = array(CoordinatedPositions, "0+", default_factory=list)


class DescribeHoldersRequest(Message, versions="0-0", flexible="0+"):
    """Which groups have not consumed all of a topic; each broker answers for the partitions that it leads."""

    topic: str = field("string", "0+", default="")


class HeldPartition(Message, versions="0-0", flexible="0+"):
    """`offset` is -1 where the group has committed none; `held_bytes` lie there, or behind it, on the leader's disk."""

    partition: int = field("int32", "0+", default=-1)
    offset: int = field("int64", "0+", default=-1)
    held_bytes: int = field("int64", "0+", default=0)


class Holder(Message, versions="0-0", flexible="0+"):
    group_id: str = field("string", "0+", default="")
    partitions: list[HeldPartition] = array(HeldPartition, "0+", default_factory=list)


class DescribeHoldersResponse(Message, versions="0-0", flexible="0+"):
    """COORDINATOR_NOT_AVAILABLE where not all coordinators have answered; the message names what is missing."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    groups: list[Holder] = array(Holder, "0+", default_factory=list)


class DescribeGroupHistoryRequest(Message, versions="0-0", flexible="0+"):
    """The coordinator of the groups answers."""

    groups: list[str] = array("string", "0+", default_factory=list)


class What(IntEnum):
    """What calls for an epoch, or a generation."""

    OTHER = 0
    """Only `cause` tells."""
    JOINED = 1
    LEFT = 2
    SESSION_TIMEOUT = 3
    REBALANCE_TIMEOUT = 4
    PUT_OUT = 5
    """By an administrator, or where there is no room."""
    GONE = 6
    """The coordinator that knew why has died."""
    SUBSCRIPTION = 7
    METADATA = 8
    REPLACED = 9
    """A static member is back under another id."""
    TOPICS = 10
    """Topics that the members read have come, gone, or have other partitions."""
    CONVERTED = 11
    """The group goes on in the other protocol."""


class GroupChange(Message, versions="0-0", flexible="0+"):
    """`what` is a `What`; an empty `member_id` stands for the group."""

    what: int = field("int8", "0+", default=0)
    member_id: str = field("string", "0+", default="")
    instance_id: str | None = field("string", "0+", nullable="0+", default=None)


class MovedPartitions(Message, versions="0-0", flexible="0+"):
    """From a member to another; an empty name is nobody."""

    topic: str = field("string", "0+", default="")
    giver: str = field("string", "0+", default="")
    taker: str = field("string", "0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class MemberTime(Message, versions="0-0", flexible="0+"):
    """How long a member took from the beginning of the epoch, and how much of that for its own part: to join again, or
    to give up what it had.
    """

    member_id: str = field("string", "0+", default="")
    took_ms: int = field("int64", "0+", default=-1)
    own_ms: int = field("int64", "0+", default=-1)


class GroupEpoch(Message, versions="0-0", flexible="0+"):
    """An epoch of a group, or a generation of one of the classic protocol: of the log, and of the answer.

    `number` counts the epochs of a group through all kinds that it was of. `formed_ms` is when it was known who is to
    have what, in a classic group when all had joined; `ended_ms` is when all had what they were to have: -1 for never,
    or not yet. `members` is how many there were. Of what has very many items a part is named: `unnamed` changes are
    not, `moved` counts all partitions that somebody was given (-1: nobody knows), and the times are those of the
    members that took longest.
    """

    number: int = field("int32", "0+", default=0)
    kind: str = field("string", "0+", default="")
    epoch: int = field("int32", "0+", default=-1)
    started_ms: int = field("int64", "0+", default=-1)
    formed_ms: int = field("int64", "0+", default=-1)
    ended_ms: int = field("int64", "0+", default=-1)
    members: int = field("int32", "0+", default=0)
    cause: str = field("string", "0+", default="")
    changes: list[GroupChange] = array(GroupChange, "0+", default_factory=list)
    unnamed: int = field("int32", "0+", default=0)
    moved: int = field("int32", "0+", default=0)
    moves: list[MovedPartitions] = array(MovedPartitions, "0+", default_factory=list)
    times: list[MemberTime] = array(MemberTime, "0+", default_factory=list)


A_HEARTBEAT: Final = "to send a heartbeat"


class Awaited(Message, versions="0-0", flexible="0+"):
    """What a group waits for now: `what` a member is to do, since when, and when it is put out; -1 for never."""

    member_id: str = field("string", "0+", default="")
    what: str = field("string", "0+", default="")
    since_ms: int = field("int64", "0+", default=-1)
    until_ms: int = field("int64", "0+", default=-1)
    partitions: list[MovedPartitions] = array(MovedPartitions, "0+", default_factory=list)


class DescribedHistory(Message, versions="0-0", flexible="0+"):
    """`now_ms` is the clock of the coordinator. The oldest epoch comes first."""

    group_id: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    now_ms: int = field("int64", "0+", default=-1)
    epochs: list[GroupEpoch] = array(GroupEpoch, "0+", default_factory=list)
    awaited: list[Awaited] = array(Awaited, "0+", default_factory=list)


class DescribeGroupHistoryResponse(Message, versions="0-0", flexible="0+"):
    groups: list[DescribedHistory] = array(DescribedHistory, "0+", default_factory=list)
