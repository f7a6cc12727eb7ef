"""The records of streams groups in `__consumer_offsets`, in Kafka's layouts: keys 17 and 19 to 23, and one of our own.

| key | its name | what it says |
| --- | --- | --- |
| 17 | | the epoch of the group, a hash of the topics that it reads, and what its topology was found to be |
| 19 | member | what a member says of itself |
| 20 | | the epoch of the assignment, and when it was worked out |
| 21 | member | the tasks that a member is to have |
| 22 | member | the tasks that a member has |
| 23 | | the topology |
| 15001 | | the topology as the application draws it (`description.py`) |
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.part_codec import PartCodec, PartLayout
from penstock.coordinator.group.streams.assignors.tasks import Roles, Tasks
from penstock.coordinator.group.streams.description import DESCRIPTION, DescriptionValue
from penstock.coordinator.group.streams.values import (
    NO_TOPOLOGY,
    Copartition,
    Current,
    GroupEpoch,
    Held,
    InternalTopic,
    Member,
    Since,
    Subtopology,
    Topology,
    topology_of,
)
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, array, field, none

GROUP: Final = 17
MEMBER: Final = 19
ASSIGNMENT: Final = 20
TARGET: Final = 21
CURRENT: Final = 22
TOPOLOGY: Final = 23

KEYS: Final = frozenset({GROUP, MEMBER, ASSIGNMENT, TARGET, CURRENT, TOPOLOGY, DESCRIPTION})


class KeyValue(Message):
    key: str = field("string", "0+", default="")
    value: str = field("string", "0+", default="")


class GroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0)
    validated_topology_epoch: int = field("int32", "0+", default=NO_TOPOLOGY, tag=0, tagged="0+")
    last_assignment_configs: list[KeyValue] | None = array(
        KeyValue, "0+", nullable="0+", default_factory=none, tag=1, tagged="0+"
    )
    stored_description_topology_epoch: int = field("int32", "0+", default=NO_TOPOLOGY, tag=2, tagged="0+")
    failed_description_topology_epoch: int = field("int32", "0+", default=NO_TOPOLOGY, tag=3, tagged="0+")


class Endpoint(Message):
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class MemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = field("string", "0+", nullable="0+", default=None)
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    topology_epoch: int = field("int32", "0+", default=0)
    process_id: str = field("string", "0+", default="")
    user_endpoint: Endpoint | None = field(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+", default_factory=list)


class TargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = field("int32", "0+", default=0)
    assignment_timestamp: int = field("int64", "0+", default=0, tag=0, tagged="0+")


class TaskIds(Message):
    """`assignment_epochs` is told of active tasks that a member has, and of no others."""

    subtopology_id: str = field("string", "0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)
    assignment_epochs: list[int] | None = array("int32", "0+", nullable="0+", default_factory=none, tag=0, tagged="0+")


class TargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)


class CurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    active_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)


class TopicInfo(Message):
    name: str = field("string", "0+", default="")
    partitions: int = field("int32", "0+", default=0)
    replication_factor: int = field("int16", "0+", default=0)
    topic_configs: list[KeyValue] = array(KeyValue, "0+", default_factory=list)


class CopartitionGroup(Message):
    source_topics: list[int] = array("int16", "0+", default_factory=list)
    source_topic_regex: list[int] = array("int16", "0+", default_factory=list)
    repartition_source_topics: list[int] = array("int16", "0+", default_factory=list)


class SubtopologyValue(Message):
    subtopology_id: str = field("string", "0+", default="")
    source_topics: list[str] = array("string", "0+", default_factory=list)
    source_topic_regex: list[str] = array("string", "0+", default_factory=list)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
    repartition_sink_topics: list[str] = array("string", "0+", default_factory=list)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+", default_factory=list)


class TopologyValue(Message, versions="0", flexible="0+"):
    epoch: int = field("int32", "0+", default=0)
    subtopologies: list[SubtopologyValue] = array(SubtopologyValue, "0+", default_factory=list)


# -- what is written --------------------------------------------------------------------------------------------------


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]


def _write_group(value: GroupEpoch) -> GroupMetadataValue:
    return GroupMetadataValue(
        epoch=value.epoch,
        metadata_hash=value.metadata_hash,
        validated_topology_epoch=value.validated_topology_epoch,
        last_assignment_configs=_pairs(value.assignment_configs) or None,
        stored_description_topology_epoch=value.stored_description_epoch,
        failed_description_topology_epoch=value.failed_description_epoch,
    )


def _write_member(value: Member) -> MemberMetadataValue:
    endpoint = value.endpoint
    return MemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_pairs(value.tags),
    )


def _tasks(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(partitions)) for name, partitions in tasks.items()]


def _since(tasks: Since) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=name, partitions=list(since), assignment_epochs=list(since.values()))
        for name, since in tasks.items()
    ]


def _write_target(value: Roles) -> TargetAssignmentMemberValue:
    return TargetAssignmentMemberValue(
        active_tasks=_tasks(value.active), standby_tasks=_tasks(value.standby), warmup_tasks=_tasks(value.warmup)
    )


def _write_current(value: Current) -> CurrentMemberAssignmentValue:
    return CurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        active_tasks=_since(value.assigned.active),
        standby_tasks=_tasks(value.assigned.standby),
        warmup_tasks=_tasks(value.assigned.warmup),
        active_tasks_pending_revocation=_since(value.revoking.active),
        standby_tasks_pending_revocation=_tasks(value.revoking.standby),
        warmup_tasks_pending_revocation=_tasks(value.revoking.warmup),
    )


def _write_topology(value: Topology) -> TopologyValue:
    return TopologyValue(epoch=value.epoch, subtopologies=[_write_subtopology(one) for one in value.subtopologies])


def _write_subtopology(value: Subtopology) -> SubtopologyValue:
    return SubtopologyValue(
        subtopology_id=value.subtopology_id,
        source_topics=list(value.source_topics),
        source_topic_regex=list(value.source_topic_regex),
        state_changelog_topics=[_write_topic(topic) for topic in value.changelogs],
        repartition_sink_topics=list(value.repartition_sinks),
        repartition_source_topics=[_write_topic(topic) for topic in value.repartition_sources],
        copartition_groups=[_write_copartition(one) for one in value.copartition_groups],
    )


def _write_topic(value: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=value.name,
        partitions=value.partitions,
        replication_factor=value.replication_factor,
        topic_configs=_pairs(value.configs),
    )


def _write_copartition(value: Copartition) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=list(value.source_topics),
        source_topic_regex=list(value.source_topic_regex),
        repartition_source_topics=list(value.repartition_sources),
    )


# -- what is read -----------------------------------------------------------------------------------------------------


def _sorted_pairs(pairs: list[KeyValue] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((pair.key, pair.value) for pair in pairs or ()))


def _read_group(value: GroupMetadataValue) -> GroupEpoch:
    return GroupEpoch(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        _sorted_pairs(value.last_assignment_configs),
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )


def _read_member(value: MemberMetadataValue) -> Member:
    endpoint = value.user_endpoint
    return Member(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        _sorted_pairs(value.client_tags),
    )


def _read_tasks(tasks: list[TaskIds]) -> Tasks:
    return {one.subtopology_id: tuple(sorted(one.partitions)) for one in tasks if one.partitions}


def _read_since(tasks: list[TaskIds], member_epoch: int) -> Since:
    """Kafka before 4.3 wrote no epochs: then that of the member counts, and 0 where it is away."""
    found: dict[str, dict[int, int]] = {}
    for one in tasks:
        epochs = one.assignment_epochs
        if epochs is None:
            epochs = [max(member_epoch, 0)] * len(one.partitions)
        if len(epochs) != len(one.partitions):
            raise DecodeError(f"{len(one.partitions)} tasks have {len(epochs)} epochs")
        if one.partitions:
            found[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return found


def _read_target(value: TargetAssignmentMemberValue) -> Roles:
    return Roles(_read_tasks(value.active_tasks), _read_tasks(value.standby_tasks), _read_tasks(value.warmup_tasks))


def _read_current(value: CurrentMemberAssignmentValue) -> Current:
    epoch = value.member_epoch
    return Current(
        epoch,
        value.previous_member_epoch,
        value.state,
        Held(_read_since(value.active_tasks, epoch), _read_tasks(value.standby_tasks), _read_tasks(value.warmup_tasks)),
        Held(
            _read_since(value.active_tasks_pending_revocation, epoch),
            _read_tasks(value.standby_tasks_pending_revocation),
            _read_tasks(value.warmup_tasks_pending_revocation),
        ),
    )


_LAYOUTS: Final[Mapping[int, PartLayout]] = {
    GROUP: PartLayout(GroupMetadataValue, _write_group, _read_group),
    MEMBER: PartLayout(MemberMetadataValue, _write_member, _read_member, is_named=True),
    ASSIGNMENT: PartLayout(
        TargetAssignmentMetadataValue,
        lambda value: TargetAssignmentMetadataValue(
            assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
        ),
        lambda value: AssignmentEpoch(value.assignment_epoch, value.assignment_timestamp),
    ),
    TARGET: PartLayout(TargetAssignmentMemberValue, _write_target, _read_target, is_named=True),
    CURRENT: PartLayout(CurrentMemberAssignmentValue, _write_current, _read_current, is_named=True),
    TOPOLOGY: PartLayout(TopologyValue, _write_topology, topology_of),
    DESCRIPTION: PartLayout(DescriptionValue, lambda value: value, lambda value: value),
}

CODEC: Final = PartCodec(_LAYOUTS)


def any_pairs(pairs: Any) -> tuple[tuple[str, str], ...]:
    """What a request says of keys and values, by ascending keys: of a key that comes twice the last value."""
    return tuple(sorted({pair.key: pair.value for pair in pairs}.items()))
