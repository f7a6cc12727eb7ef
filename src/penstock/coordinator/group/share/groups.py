"""The share groups of one partition of `__consumer_offsets`: their requests, and how they come back after a load."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.share import describe, heartbeat, offsets, states, timing
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.state import ShareGroupRecord, ShareGroupState
from penstock.coordinator.group.share.table import ShareGroupTable
from penstock.coordinator.group.table import GroupKind, GroupTable
from penstock.metadata.image import ClusterImage
from penstock.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from penstock.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from penstock.protocol.messages.share_group_describe import DescribedGroup
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

LOOKED_AT_ONCE: Final = 500
"""Groups and their topics. Those of one group are in one record, and are looked at together."""
SLICE_MS: Final = 1
"""Between some of very many groups and the next ones."""


class ShareGroups:
    record = ShareGroupRecord

    def __init__(self, table: GroupTable, image: ClusterImage) -> None:
        self.topics = Topics(image, table.timers)
        self._house = ShareGroupTable(table, self.topics)
        self._is_forgetting = self._forgets_again = False
        table.add_kind(GroupKind(ShareGroup.kind, self._create, self._restore, _unsettled))

    def _create(self, group_id: str, now_ms: int, settings: GroupSettings) -> ShareGroup:
        return self._house.new_group(group_id)

    def _restore(self, table: GroupTable, group_id: str, state: ShareGroupState, now_ms: int) -> Iterator[None]:
        """Members keep their epochs, and their sessions count from now; what is under way elsewhere goes on."""
        group = self._house.new_group(group_id)
        table.groups[group_id] = group
        yield from timing.settling(self._house, group, now_ms)
        states.go_on(self._house, group, now_ms)

    def forget_topics(self, now_ms: int) -> None:
        """Some are gone. One walk at a time; then another for what has gone meanwhile."""
        if self._is_forgetting:
            self._forgets_again = True
            return
        self._is_forgetting, self._forgets_again = True, False
        self._house.table.start_timer(self._forget_some, now_ms, deque(self._house.table.groups))

    def _forget_some(self, left: deque[str], now_ms: int) -> None:
        table, looked_at = self._house.table, 0
        while left and looked_at < LOOKED_AT_ONCE:
            group = table.groups.get(left.popleft())
            looked_at += 1
            if isinstance(group, ShareGroup):
                looked_at += len(group.state.partitions.topics())
                states.forget_gone(self._house, group, now_ms)
        if left:
            table.start_timer(self._forget_some, now_ms + SLICE_MS, left)
            return
        self._is_forgetting = False
        if self._forgets_again:
            self.forget_topics(now_ms + SLICE_MS)

    # -- requests -----------------------------------------------------------------------------------------------------

    def heartbeat(self, token: Token, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: int) -> None:
        heartbeat.heartbeat(self._house, token, request, caller, now_ms)

    def alter_offsets(self, token: Token, request: AlterShareGroupOffsetsRequest, now_ms: int) -> None:
        offsets.alter(self._house, token, request, now_ms)

    def delete_offsets(self, token: Token, request: DeleteShareGroupOffsetsRequest, now_ms: int) -> None:
        offsets.delete(self._house, token, request, now_ms)

    def delete_group(self, token: Token, group_id: str, now_ms: int) -> bool:
        """Whether it is one of these, and answered: what has read nothing goes as every group does."""
        return offsets.delete_group(self._house, token, group_id, now_ms)

    def describe(self, group_id: str) -> DescribedGroup:
        return describe.describe_group(self._house.find(group_id), group_id, self.topics)

    def initialized(self, group_id: str) -> Mapping[UUID, tuple[int, ...]]:
        """What the group has begun to read, as far as that is committed."""
        group = self._house.find(group_id)
        return {} if group is None else group.committed.partitions.assignable


def _unsettled(group: ShareGroup, now_ms: int) -> AnyRecord | None:
    """All that the next coordinator is to know is in the records."""
    return None
