"""What StreamsGroupDescribe says of a group: what is committed."""

from collections.abc import Mapping

from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, Tasks
from penstock.coordinator.group.streams.description import AVAILABLE, NOT_REQUESTED, NOT_STORED, described
from penstock.coordinator.group.streams.group import NO_OFFSETS, Offsets, StreamsGroup
from penstock.coordinator.group.streams.state import StreamsView
from penstock.coordinator.group.streams.values import InternalTopic, Member, Topology
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import streams_group_describe as messages
from penstock.protocol.messages.streams_group_describe import DescribedGroup, KeyValue, TaskIds, TaskOffset, TopicInfo


def describe_group(
    group: StreamsGroup | None, group_id: str, assignor_name: str, *, with_description: bool
) -> DescribedGroup:
    if group is None or group.committed.is_empty:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"There is no streams group {group_id}.",
        )
    view, configured = group.committed, group.configured
    topology = view.topology
    if configured is not None and configured.is_ready and topology == group.state.topology:
        topology = configured.topology  # it has the numbers of partitions that were decided
    description = view.description if with_description else None
    status = NOT_REQUESTED
    if with_description:
        status = NOT_STORED if description is None else AVAILABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=view.state,
        group_epoch=view.epoch,
        assignment_epoch=view.assignment.epoch,
        topology=None if topology is None else _topology(topology),
        members=[_member(view, name, one, group.offsets.get(name, NO_OFFSETS)) for name, one in view.members.items()],
        assignor_name=assignor_name,
        topology_description=None if description is None else described(description),
        topology_description_status=status,
    )


def _topology(topology: Topology) -> messages.Topology:
    return messages.Topology(
        epoch=topology.epoch,
        subtopologies=[
            messages.Subtopology(
                subtopology_id=sub.subtopology_id,
                source_topics=sorted(sub.source_topics),
                repartition_sink_topics=sorted(sub.repartition_sinks),
                state_changelog_topics=[_topic(topic) for topic in _by_name(sub.changelogs)],
                repartition_source_topics=[_topic(topic) for topic in _by_name(sub.repartition_sources)],
            )
            for sub in topology.subtopologies
        ],
    )


def _by_name(topics: tuple[InternalTopic, ...]) -> list[InternalTopic]:
    return sorted(topics, key=lambda topic: topic.name)


def _topic(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=_pairs(topic.configs),
    )


def _member(view: StreamsView, member_id: str, member: Member, offsets: Offsets) -> messages.Member:
    current, endpoint = view.current(member_id), member.endpoint
    return messages.Member(
        member_id=member_id,
        member_epoch=current.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_pairs(member.tags),
        task_offsets=_offsets(offsets.reached),
        task_end_offsets=_offsets(offsets.ends),
        assignment=_assignment(current.assigned.roles),
        target_assignment=_assignment(view.target(member_id)),
    )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]


def _offsets(offsets: Mapping[Task, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for (subtopology, partition), offset in sorted(offsets.items())
    ]


def _assignment(roles: Roles) -> messages.Assignment:
    return messages.Assignment(
        active_tasks=_tasks(roles.active), standby_tasks=_tasks(roles.standby), warmup_tasks=_tasks(roles.warmup)
    )


def _tasks(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(partitions)) for name, partitions in sorted(tasks.items())]
