"""The consumer groups of one partition of `__consumer_offsets`: their requests, and how they come back after a load."""

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import describe, heartbeat, leaving, timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import KEYS
from penstock.coordinator.group.consumer.resolving import MayDescribe
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState, decode_record
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupKind, GroupTable
from penstock.metadata.image import ClusterImage
from penstock.protocol.messages.consumer_group_describe import DescribedGroup
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest


class ConsumerGroups:
    def __init__(self, table: GroupTable, image: ClusterImage) -> None:
        self.topics = Topics(image)
        self._house = ConsumerTable(table, self.topics)
        table.add_kind(GroupKind(ConsumerGroup.kind, self._create, self._restore, _unsettled))

    def decode(self, key_version: int, key: bytes, value: bytes | None) -> ConsumerRecord | None:
        """None if the key is of no consumer group. DecodeError if it is not what it claims."""
        return decode_record(key_version, key, value) if key_version in KEYS else None

    def _create(self, group_id: str, now_ms: int, settings: GroupSettings) -> ConsumerGroup:
        return self._house.new_group(group_id)

    def _restore(self, table: GroupTable, group_id: str, state: ConsumerState, now_ms: int) -> None:
        """Members keep their epochs, and the times of all that they are to do count from now."""
        group = self._house.new_group(group_id)
        table.groups[group_id] = group
        timing.settle(self._house, group, now_ms)

    # -- requests -----------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        token: Token,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: MayDescribe,
        now_ms: int,
    ) -> None:
        heartbeat.heartbeat(self._house, token, request, caller, may_describe, now_ms)

    def leave(self, token: Token, request: LeaveGroupRequest, api_version: int, now_ms: int) -> bool:
        """Whether the group is one of these."""
        group = self._house.find(request.group_id)
        if group is not None:
            leaving.leave_group(self._house, token, group, request, api_version, now_ms)
        return group is not None

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._house.find(group_id)
        return describe.describe_group(group, group_id, self.topics, self._house.settings.assignors)


def _unsettled(group: ConsumerGroup, now_ms: int) -> AnyRecord | None:
    """All that the next coordinator is to know is in the records."""
    return None
