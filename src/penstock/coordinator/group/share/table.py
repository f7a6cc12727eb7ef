"""What all that decides about share groups needs: the table of the partition, the topics, and the limits."""

from penstock.coordinator.group.consumer.kind_table import KindTable
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import GroupEpoch
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import ASSIGNMENT, GROUP, PARTITIONS
from penstock.coordinator.group.share.state import ShareGroupRecord
from penstock.coordinator.group.share.values import StatePartitions
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import Draft


class ShareGroupTable(KindTable):
    session_timeout = "share.session.timeout.ms"
    heartbeat_interval = "share.heartbeat.interval.ms"
    assignment_interval = "share.assignment.interval.ms"

    def __init__(self, table: GroupTable, topics: Topics) -> None:
        super().__init__(table, topics, table.settings.share)

    def find(self, group_id: str) -> ShareGroup | None:
        """None if there is none, or it is of another kind."""
        group = self.table.groups.get(group_id)
        return group if type(group) is ShareGroup else None

    def new_group(self, group_id: str) -> ShareGroup:
        """It is in no table yet."""
        return ShareGroup(group_id, self.table.image)

    def put_partitions(self, draft: Draft[AnyRecord], group: ShareGroup, partitions: StatePartitions) -> None:
        """What it has at the share coordinator, if that is something else than before."""
        if partitions != group.state.partitions:
            put(draft, group.group_id, PARTITIONS, ONE, partitions)

    def next_epoch(self, draft: Draft[AnyRecord], group: ShareGroup, at_least: int = 0) -> None:
        """A group without members needs no new assignment."""
        state = group.state
        epoch = max(state.epoch + 1, at_least)
        metadata_hash = self.topics.hash_of(state.topics, state.group.metadata_hash)
        put(draft, group.group_id, GROUP, ONE, GroupEpoch(epoch, metadata_hash))
        if not state.members:
            group.assigning = None  # what is being worked out is for members that are gone, and for an earlier epoch
            put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(group.state.epoch, 0))


def put(draft: Draft[AnyRecord], group_id: str, key: int, name: str, value: object) -> None:
    """`value` None takes it away."""
    draft.put(ShareGroupRecord(group_id, value, key, name))
