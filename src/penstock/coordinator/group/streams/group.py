"""One streams group: its timers, what it knows beside its records, and what every kind of group answers.

| state | what it means |
| --- | --- |
| Empty | no members; offsets may be there |
| NotReady | topics of the topology are missing, or have other partitions than they need |
| Assigning | the group's epoch is ahead of the assignment's: targets are to be worked out |
| Reconciling | some member has not come to its target |
| Stable | all members have what they are to have |

They follow from the records, and no event sets them.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from penstock.coordinator.group.assigned_group import RevokingGroup
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.streams.assignors.tasks import Task
from penstock.coordinator.group.streams.description import DESCRIPTION
from penstock.coordinator.group.streams.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, TARGET, TOPOLOGY
from penstock.coordinator.group.streams.state import StreamsRecord, StreamsState, StreamsView
from penstock.coordinator.group.streams.topology import Configured
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.streams_group_heartbeat import EndpointToPartitions
from penstock.protocol.value import Value, fresh

MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which on a member of such a group may commit."""


class Offsets(Value):
    """How far the changelogs of a member's tasks are that it has, and how far they go, as it said last."""

    reached: Mapping[Task, int] = fresh(dict)
    ends: Mapping[Task, int] = fresh(dict)


NO_OFFSETS: Final = Offsets()


class StreamsGroup(RevokingGroup[StreamsState, StreamsView]):
    """Beside the timers of members, what no record says: another coordinator asks for it again."""

    __slots__ = ("configured", "delay", "endpoint_epoch", "endpoints", "offsets", "shut_down_by")

    kind: ClassVar[str] = "streams"
    protocol_type: ClassVar[str] = "streams"
    nothing = StreamsState()
    record = StreamsRecord
    tombstone_order = (CURRENT, TARGET, ASSIGNMENT, MEMBER, GROUP, DESCRIPTION, TOPOLOGY)

    def __init__(self, group_id: str, image: GroupImage) -> None:
        super().__init__(group_id, image)
        self.configured: Configured | None = None
        """What was found of the topics of its topology, as of `checked_version`."""
        self.delay: Timer | None = None
        """Until it ends, more members are waited for before the first assignment."""
        self.endpoint_epoch = 0
        """Grows whenever who has what, or at which endpoint, has changed for those that ask each other."""
        self.endpoints: tuple[tuple[int, int, int], list[EndpointToPartitions]] | None = None
        """What was told of them last, with that epoch, the group's, and the version of the topics."""
        self.offsets: dict[str, Offsets] = {}
        self.shut_down_by = ""
        """The member that wants the whole application to end."""

    @property
    def is_delayed(self) -> bool:
        return self.delay is not None and self.delay.deadline_ms is not None

    def forget(self, member_id: str) -> None:
        """It is out."""
        self.stop_session(member_id)
        self.stop_rebalance(member_id)
        self.offsets.pop(member_id, None)

    def kill(self, now_ms: int) -> None:
        super().kill(now_ms)
        self.end_delay()

    def end_delay(self) -> None:
        if self.delay is not None:
            self.delay.deadline_ms = None
            self.delay = None

    # -- offsets ------------------------------------------------------------------------------------------------------

    def check_pending_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        names_member = bool(request.member_id) or request.group_instance_id is not None
        if not self._is_dead and request.generation_id_or_member_epoch < 0 and not names_member:
            return ErrorCode.NONE
        return self._check(request)

    def check_commit(
        self, request: OffsetCommitRequest, api_version: int, agenda: Agenda[AnyRecord], now_ms: int
    ) -> ErrorCode:
        error = self._check(request)
        is_checked = error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH)
        if is_checked and request.member_id in self.state.members and api_version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return error

    def _check(self, request: OffsetCommitRequest) -> ErrorCode:
        """An older epoch is good for tasks that the member has had active since then (KIP-1251)."""
        epoch, state = request.generation_id_or_member_epoch, self.state
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not state.members:
            return ErrorCode.NONE
        if request.member_id not in state.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        current = state.current(request.member_id).epoch
        if epoch == current:
            return ErrorCode.NONE
        is_held = epoch < current and all(
            self._held_since(request.member_id, topic.name, partition.partition_index) <= epoch
            for topic in request.topics
            for partition in topic.partitions
        )
        return ErrorCode.NONE if is_held else ErrorCode.STALE_MEMBER_EPOCH

    def _held_since(self, member_id: str, topic: str, partition: int) -> float:
        current, subtopology = self.state.current(member_id), self.state.subtopology_of(topic)
        for held in (current.assigned, current.revoking):
            since = held.active.get(subtopology or "", {})
            if subtopology is not None and partition in since:
                return since[partition]
        return float("inf")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        if member_id is None or member_id not in self.committed.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_current = self.committed.current(member_id).epoch == member_epoch
        return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH
