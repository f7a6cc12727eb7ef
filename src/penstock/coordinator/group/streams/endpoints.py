"""Where queries of an application's state are answered (KIP-535): what each member with an endpoint has."""

from collections.abc import Mapping

from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.streams.assignors.tasks import Roles, Tasks
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponseEndpoint,
    TopicPartition,
)


def endpoints(group: StreamsGroup, topics: Topics) -> list[EndpointToPartitions]:
    """An entry for each member: several have the same endpoint where a process has several members. Read only: it is
    told to all.
    """
    key = (group.endpoint_epoch, group.state.epoch, topics.version)
    if group.endpoints is None or group.endpoints[0] != key:
        group.endpoints = key, _of_all(group, topics)
    return group.endpoints[1]


def _of_all(group: StreamsGroup, topics: Topics) -> list[EndpointToPartitions]:
    state = group.state
    topology = state.topology
    if topology is None:
        return []
    inputs = {sub.subtopology_id: sub.inputs for sub in topology.subtopologies}
    counts = {name: topics.partition_count(name) or 0 for names in inputs.values() for name in names}
    return [
        _of_member(member.endpoint, state.current(member_id).assigned.roles, inputs, counts)
        for member_id, member in state.members.items()
        if member.endpoint is not None
    ]


def _of_member(
    endpoint: tuple[str, int], roles: Roles, inputs: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> EndpointToPartitions:
    host, port = endpoint
    return EndpointToPartitions(
        user_endpoint=StreamsGroupHeartbeatResponseEndpoint(host=host, port=port),
        active_partitions=_partitions((roles.active,), inputs, counts),
        standby_partitions=_partitions((roles.standby, roles.warmup), inputs, counts),
    )


def _partitions(
    roles: tuple[Tasks, ...], inputs: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> list[TopicPartition]:
    found: dict[str, dict[int, None]] = {}
    for tasks in roles:
        for subtopology, partitions in tasks.items():
            for name in inputs.get(subtopology, ()):
                found.setdefault(name, {}).update((one, None) for one in partitions if one < counts[name])
    return [TopicPartition(topic=name, partitions=sorted(some)) for name, some in found.items() if some]
