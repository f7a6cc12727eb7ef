"""The consumer groups of one partition of `__consumer_offsets`: their requests, and how they come back after a load."""

from collections.abc import Iterator

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.join import Join
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import classic_members, describe, heartbeat, leaving, timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.resolving import MayDescribe
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState
from penstock.coordinator.group.consumer.story import ConsumerStory
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupKind, GroupTable
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import DescribedGroup
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest


class ConsumerGroups:
    record = ConsumerRecord

    def __init__(self, table: GroupTable, image: ClusterImage) -> None:
        self.topics = Topics(image, table.timers)
        self._house = ConsumerTable(table, self.topics)
        table.add_kind(GroupKind(ConsumerGroup.kind, self._create, self._restore, _unsettled, self._story))

    def _create(self, group_id: str, now_ms: int, settings: GroupSettings) -> ConsumerGroup:
        return self._house.new_group(group_id)

    def _story(self, table: GroupTable) -> ConsumerStory:
        return ConsumerStory(table.image, self.topics)

    def _restore(self, table: GroupTable, group_id: str, state: ConsumerState, now_ms: int) -> Iterator[None]:
        """Members keep their epochs, and the times of all that they are to do count from now."""
        group = self._house.new_group(group_id)
        table.groups[group_id] = group
        yield from timing.settling(self._house, group, now_ms)

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

    def goes_on(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int) -> int | None:
        return heartbeat.goes_on(self._house, request, caller, now_ms)

    def join(self, token: Token, request: JoinGroupRequest, caller: Caller, now_ms: int) -> bool:
        """Whether the group is one of these, and has members: an empty one becomes classic again."""
        group = self._with_members(request.group_id)
        if group is not None:
            classic_members.join(self._house, group, Join(token, request, caller), now_ms)
        return group is not None

    def sync(self, token: Token, request: SyncGroupRequest, now_ms: int) -> bool:
        """As `join`."""
        group = self._with_members(request.group_id)
        if group is not None:
            classic_members.sync(self._house, token, group, request, now_ms)
        return group is not None

    def classic_heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode | None:
        """None if the group is none of these, or has no members."""
        group = self._with_members(request.group_id)
        return None if group is None else classic_members.heartbeat(self._house, group, request, now_ms)

    def _with_members(self, group_id: str) -> ConsumerGroup | None:
        group = self._house.find(group_id)
        return group if group is not None and group.state.members else None

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
