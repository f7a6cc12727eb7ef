"""What all that decides about streams groups needs: the table of the partition, the topics, and the limits."""

from penstock.coordinator.group.consumer.kind_table import KindTable
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import StreamsSettings
from penstock.coordinator.group.streams.assignors.spec import RACK_AWARE_TAGS, STANDBY_REPLICAS
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, TARGET
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.coordinator.group.streams.values import GroupEpoch
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import Draft


class StreamsTable(KindTable):
    session_timeout = "streams.session.timeout.ms"
    heartbeat_interval = "streams.heartbeat.interval.ms"
    assignment_interval = "streams.assignment.interval.ms"

    settings: StreamsSettings

    def __init__(self, table: GroupTable, topics: Topics) -> None:
        super().__init__(table, topics, table.settings.streams)

    def find(self, group_id: str) -> StreamsGroup | None:
        """None if there is none, or it is of another kind."""
        group = self.table.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def new_group(self, group_id: str) -> StreamsGroup:
        """It is in no table yet."""
        return StreamsGroup(group_id, self.table.image)

    # -- limits -------------------------------------------------------------------------------------------------------

    def initial_delay_ms(self, group_id: str) -> int:
        return self._limit(group_id, "streams.initial.rebalance.delay.ms", self.settings.initial_rebalance_delay)

    def task_offset_interval_ms(self, group_id: str) -> int:
        return self._limit(group_id, "streams.task.offset.interval.ms", self.settings.task_offset_interval)

    def recovery_lag(self, group_id: str) -> int:
        return self._limit(group_id, "streams.acceptable.recovery.lag", self.settings.recovery_lag)

    def assignor_name(self, group_id: str) -> str | None:
        """What the group asks for; None if it does not."""
        return self.topics.configs_of(group_id).get("streams.assignor.name") or None

    def tags(self, group_id: str) -> tuple[str, ...]:
        """Keys of tags by which standby tasks are spread."""
        said = self.topics.configs_of(group_id).get("streams.rack.aware.assignment.tags")
        if said is None:
            return self.settings.rack_aware_tags
        return tuple(tag.strip() for tag in said.split(",") if tag.strip())

    def assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        """By ascending names."""
        replicas = self._limit(group_id, "streams.num.standby.replicas", self.settings.standby_replicas)
        tags = self.tags(group_id)
        configs = [(STANDBY_REPLICAS, str(replicas))]
        return tuple([*configs, (RACK_AWARE_TAGS, ",".join(tags))] if tags else configs)

    # -- writing ------------------------------------------------------------------------------------------------------

    def remove(self, draft: Draft[AnyRecord], group: StreamsGroup, member_id: str) -> None:
        """It is a member. The group goes to its next epoch; one without members needs no new assignment."""
        take_out(draft, group.group_id, member_id)
        group.forget(member_id)
        put_epoch(draft, group, group.state.group)
        if not group.state.members:
            group.assigning = None  # what is being worked out is for members that are gone, and for an earlier epoch
            group.shut_down_by = ""
            group.end_delay()
            put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(group.state.epoch, 0))


def take_out(draft: Draft[AnyRecord], group_id: str, member_id: str) -> None:
    for key in (CURRENT, TARGET, MEMBER):
        put(draft, group_id, key, member_id, None)


def put_epoch(draft: Draft[AnyRecord], group: StreamsGroup, said: GroupEpoch) -> None:
    """The group's next one, which says this."""
    put(draft, group.group_id, GROUP, ONE, said.replace(epoch=group.state.epoch + 1))


def put(draft: Draft[AnyRecord], group_id: str, key: int, name: str, value: object) -> None:
    """`value` None takes it away."""
    draft.put(StreamsRecord(group_id, value, key, name))
