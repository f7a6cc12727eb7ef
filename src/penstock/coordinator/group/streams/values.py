"""What the records of a streams group say, as values that never change."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.coordinator.group.epochs import JOINS
from penstock.coordinator.group.streams.assignors.tasks import Roles, Tasks
from penstock.protocol.value import Value, fresh

Since = Mapping[str, Mapping[int, int]]
"""Subtopology to partition to the epoch in which the member got it."""

STABLE: Final = 1
UNREVOKED_TASKS: Final = 2
UNRELEASED_TASKS: Final = 3
"""The states of a member; others may be in the log of a newer coordinator, which Kafka calls UNKNOWN."""

NO_TOPOLOGY: Final = -1
"""The epoch of a topology that is not there."""
UNCERTAIN: Final = -2
"""The epoch of a description whose writing or removal was begun: it may be stored, or not."""


class GroupEpoch(Value):
    epoch: int
    metadata_hash: int
    """Of the topics that the topology reads: signed, of 64 bits."""
    validated_topology_epoch: int = NO_TOPOLOGY
    """The epoch of the topology whose topics were found to be there, and partitioned as they have to be."""
    assignment_configs: tuple[tuple[str, str], ...] = ()
    """What the assignor was last told, by ascending names."""
    stored_description_epoch: int = NO_TOPOLOGY
    """The epoch of the topology whose description is stored."""
    failed_description_epoch: int = NO_TOPOLOGY
    """The epoch of the topology whose description was refused for good."""


class Member(Value):
    """What a member says of itself. Kafka calls the record StreamsGroupMemberMetadata."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    """Members of one process share what it has on disk, so no two of them run the same task."""
    endpoint: tuple[str, int] | None = None
    """Host and port at which it answers queries of others (KIP-535)."""
    tags: tuple[tuple[str, str], ...] = ()
    """By ascending names."""


# -- tasks ------------------------------------------------------------------------------------------------------------


class Held(Value):
    """As `Roles`, with epochs. Kafka calls it TasksTupleWithEpochs."""

    active: Since = fresh(dict)
    standby: Tasks = fresh(dict)
    warmup: Tasks = fresh(dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @property
    def roles(self) -> Roles:
        active = {subtopology: tuple(sorted(since)) for subtopology, since in self.active.items()}
        return Roles(active, self.standby, self.warmup)


class Current(Value):
    """Where a member is on its way to its target."""

    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: int = STABLE
    assigned: Held = fresh(Held)
    revoking: Held = fresh(Held)
    """What the member is to give up, and has not said that it has."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == STABLE and self.epoch == epoch


NEWCOMER: Final = Current()
"""A member that is in no record yet."""


# -- the topology -----------------------------------------------------------------------------------------------------


class InternalTopic(Value):
    """A topic that the application has created for itself. Kafka calls it TopicInfo."""

    name: str
    partitions: int = 0
    """0: as many as follow from the topology; always so for a changelog."""
    replication_factor: int = 0
    """0: the default."""
    configs: tuple[tuple[str, str], ...] = ()


class Copartition(Value):
    """Topics of a subtopology that have to have the same number of partitions, as places in its lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class Subtopology(Value):
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[Copartition, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of what it reads: source topics, and repartition topics."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))

    @property
    def internal_topics(self) -> tuple[InternalTopic, ...]:
        return *self.changelogs, *self.repartition_sources

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class Topology(Value):
    """What a streams application says of itself. Kafka calls the record StreamsGroupTopology."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()
    """By ascending ids: two that differ in the order alone are the same."""

    @property
    def required_topics(self) -> tuple[str, ...]:
        """That are read, internal ones and changelogs included, in ascending order."""
        changelogs = (topic.name for sub in self.subtopologies for topic in sub.changelogs)
        return tuple(sorted({*self.source_of, *changelogs}))

    @property
    def source_of(self) -> dict[str, str]:
        """Each topic that is read, but for changelogs, with the subtopology that reads it."""
        return {name: sub.subtopology_id for sub in self.subtopologies for name in sub.inputs}


def topology_of(said: Any) -> Topology:
    """`said` is the topology in a heartbeat, or the value of the record: both have the same names."""
    subtopologies = [
        Subtopology(
            sub.subtopology_id,
            tuple(sub.source_topics),
            tuple(sub.source_topic_regex),
            tuple(map(_internal_topic, sub.state_changelog_topics)),
            tuple(sub.repartition_sink_topics),
            tuple(map(_internal_topic, sub.repartition_source_topics)),
            tuple(
                Copartition(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in sub.copartition_groups
            ),
        )
        for sub in said.subtopologies
    ]
    return Topology(said.epoch, tuple(sorted(subtopologies, key=lambda sub: sub.subtopology_id)))


def _internal_topic(said: Any) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in said.topic_configs)
    return InternalTopic(said.name, said.partitions, said.replication_factor, configs)
