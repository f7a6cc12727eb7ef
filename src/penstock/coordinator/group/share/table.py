"""What all that decides about share groups needs: the table of the partition, the topics, and the limits."""

from collections.abc import Callable

from penstock.coordinator.effects import Token
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import AssignmentEpoch, GroupEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import Bounded
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import ASSIGNMENT, GROUP, PARTITIONS
from penstock.coordinator.group.share.state import ShareGroupRecord
from penstock.coordinator.group.share.values import StatePartitions
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Continuation, Draft, nothing
from penstock.protocol.errors import ErrorCode

SESSION_TIMEOUT = "share.session.timeout.ms"
HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"


class ShareGroupTable:
    def __init__(self, table: GroupTable, topics: Topics) -> None:
        self.table = table
        self.topics = topics
        self.settings = table.settings.share

    def find(self, group_id: str) -> ShareGroup | None:
        """None if there is none, or it is of another kind."""
        group = self.table.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def new_group(self, group_id: str) -> ShareGroup:
        """It is in no table yet."""
        return ShareGroup(group_id, self.table.image)

    def groups(self) -> list[ShareGroup]:
        return [group for group in self.table.groups.values() if isinstance(group, ShareGroup)]

    # -- limits -------------------------------------------------------------------------------------------------------

    def session_timeout_ms(self, group_id: str) -> int:
        return self._limit(group_id, SESSION_TIMEOUT, self.settings.session_timeout)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._limit(group_id, HEARTBEAT_INTERVAL, self.settings.heartbeat_interval)

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._limit(group_id, ASSIGNMENT_INTERVAL, self.settings.assignment_interval)

    def _limit(self, group_id: str, key: str, limit: Bounded) -> int:
        configs = self.topics.configs_of(group_id)
        return limit.of(configs.get(key)) if configs else limit.default_ms

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self,
        draft: Draft[AnyRecord],
        now_ms: int,
        *,
        then: Continuation = nothing,
        token: Token | None = None,
        answer: Callable[[ErrorCode], object] = lambda _: None,
    ) -> None:
        """Append what was decided, and answer when it is committed; an empty draft, when all before it is."""
        if draft.records:
            self.table.append_draft(draft, now_ms, then=then, token=token, answer=_told(answer))
        elif token is not None:
            self.table.answer_when_committed(token, _told(answer), now_ms)

    def put_partitions(self, draft: Draft[AnyRecord], group: ShareGroup, partitions: StatePartitions) -> None:
        """What it has at the share coordinator, if that is something else than before."""
        if partitions != group.state.partitions:
            put(draft, group.group_id, PARTITIONS, ONE, partitions)

    def next_epoch(self, draft: Draft[AnyRecord], group: ShareGroup) -> None:
        """A group without members needs no new assignment."""
        state = group.state
        put(draft, group.group_id, GROUP, ONE, GroupEpoch(state.epoch + 1, self.topics.hash_of(state.topics)))
        if not state.members:
            group.assigning = None  # what is being worked out is for members that are gone, and for an earlier epoch
            put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(group.state.epoch, 0))


def _told(answer: Callable[[ErrorCode], object]) -> Callable[[ErrorCode], object]:
    return lambda error: answer(group_write_error(error))


def put(draft: Draft[AnyRecord], group_id: str, key: int, name: str, value: object) -> None:
    """`value` None takes it away."""
    draft.put(ShareGroupRecord(group_id, value, key, name))
