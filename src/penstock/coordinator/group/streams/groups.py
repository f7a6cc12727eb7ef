"""The streams groups of one partition of `__consumer_offsets`: their requests, and how they come back after a load."""

from collections.abc import Iterator

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.streams import describe, describing, heartbeat, timing
from penstock.coordinator.group.streams.assignors.registry import name_of
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.state import StreamsRecord, StreamsState
from penstock.coordinator.group.streams.story import StreamsStory
from penstock.coordinator.group.streams.table import StreamsTable
from penstock.coordinator.group.table import GroupKind, GroupTable
from penstock.metadata.image import ClusterImage
from penstock.protocol.messages.streams_group_describe import DescribedGroup
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)


class StreamsGroups:
    record = StreamsRecord

    def __init__(self, table: GroupTable, image: ClusterImage) -> None:
        self.topics = Topics(image, table.timers)
        self._house = StreamsTable(table, self.topics)
        table.add_kind(GroupKind(StreamsGroup.kind, self._create, self._restore, _unsettled, self._story))

    def _create(self, group_id: str, now_ms: int, settings: GroupSettings) -> StreamsGroup:
        return self._house.new_group(group_id)

    def _story(self, table: GroupTable) -> StreamsStory:
        return StreamsStory(table.image)

    def _restore(self, table: GroupTable, group_id: str, state: StreamsState, now_ms: int) -> Iterator[None]:
        """Members keep their epochs, and the times of all that they are to do count from now."""
        group = self._house.new_group(group_id)
        table.groups[group_id] = group
        yield from timing.settling(self._house, group, now_ms)

    # -- requests -----------------------------------------------------------------------------------------------------

    def heartbeat(self, token: Token, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int) -> None:
        heartbeat.heartbeat(self._house, token, request, caller, now_ms)

    def update_description(
        self, token: Token, request: StreamsGroupTopologyDescriptionUpdateRequest, now_ms: int
    ) -> None:
        describing.update(self._house, token, request, now_ms)

    def describe(self, group_id: str, *, with_description: bool) -> DescribedGroup:
        name = name_of(self._house.assignor_name(group_id), self._house.settings.assignors)
        group = self._house.find(group_id)
        return describe.describe_group(group, group_id, name, with_description=with_description)


def _unsettled(group: StreamsGroup, now_ms: int) -> AnyRecord | None:
    """All that the next coordinator is to know is in the records."""
    return None
