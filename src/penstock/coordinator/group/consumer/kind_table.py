"""What all that decides about groups of one kind needs, where the coordinator assigns: limits of each, and writing."""

from collections.abc import Callable
from typing import Any, ClassVar

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import Bounded
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Answer, Continuation, Draft, nothing
from penstock.protocol.errors import ErrorCode, KafkaError


class KindTable:
    session_timeout: ClassVar[str]
    heartbeat_interval: ClassVar[str]
    assignment_interval: ClassVar[str]
    """Keys of a group's own configuration."""

    def __init__(self, table: GroupTable, topics: Topics, settings: Any) -> None:
        """`settings` are those of the kind, with what holds where a group has no limits of its own."""
        self.table = table
        self.topics = topics
        self.settings = settings

    # -- limits -------------------------------------------------------------------------------------------------------

    def session_timeout_ms(self, group_id: str) -> int:
        return self._limit(group_id, self.session_timeout, self.settings.session_timeout)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._limit(group_id, self.heartbeat_interval, self.settings.heartbeat_interval)

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._limit(group_id, self.assignment_interval, self.settings.assignment_interval)

    def _limit(self, group_id: str, key: str, limit: Bounded) -> int:
        configs = self.topics.configs_of(group_id)
        return limit.of(configs.get(key)) if configs else limit.default

    # -- other kinds --------------------------------------------------------------------------------------------------

    def make_room(self, draft: Draft[AnyRecord], other: Group, kind: str) -> None:
        """For a group of this kind, where one of another kind is: it goes if it is empty, and its offsets stay. Raises
        KafkaError(GROUP_ID_NOT_FOUND).
        """
        is_empty = not other.members if isinstance(other, ClassicGroup) else other.may_expire
        if not is_empty:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {other.group_id} is no {kind} group")
        for record in other.tombstones() if self.table.image.group(other.kind, other.group_id) is not None else ():
            draft.put(record)

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

    def refuse(self, token: Token, answer: Answer, error: ErrorCode, now_ms: int) -> None:
        """When all is committed on which the refusal may rest."""
        self.table.refuse(token, _told(answer), error, now_ms)


def _told(answer: Callable[[ErrorCode], object]) -> Callable[[ErrorCode], object]:
    return lambda error: answer(group_write_error(error))
