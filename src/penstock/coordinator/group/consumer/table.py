"""What all that decides about consumer groups needs: the table of the partition, the topics, and the limits."""

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.kind_table import KindTable
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import Draft


class ConsumerTable(KindTable):
    session_timeout = "consumer.session.timeout.ms"
    heartbeat_interval = "consumer.heartbeat.interval.ms"
    assignment_interval = "consumer.assignment.interval.ms"

    def __init__(self, table: GroupTable, topics: Topics) -> None:
        super().__init__(table, topics, table.settings.consumer)

    def find(self, group_id: str) -> ConsumerGroup | None:
        """None if there is none, or it is of another kind."""
        group = self.table.groups.get(group_id)
        return group if type(group) is ConsumerGroup else None

    def new_group(self, group_id: str) -> ConsumerGroup:
        """It is in no table yet."""
        return ConsumerGroup(group_id, self.table.image, self.topics)


def put(draft: Draft[AnyRecord], group_id: str, key: int, name: str, value: object) -> None:
    """`value` None takes it away."""
    draft.put(ConsumerRecord(group_id, value, key, name))
