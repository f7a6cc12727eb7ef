"""What all that decides about consumer groups needs: the table of the partition, the topics, and the limits."""

from collections.abc import Callable

from penstock.coordinator.effects import Token
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import Bounded
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Answer, Continuation, Draft, nothing
from penstock.protocol.errors import ErrorCode

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


class ConsumerTable:
    def __init__(self, table: GroupTable, topics: Topics) -> None:
        self.table = table
        self.topics = topics
        self.settings = table.settings.consumer

    def find(self, group_id: str) -> ConsumerGroup | None:
        """None if there is none, or it is of another kind."""
        group = self.table.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def new_group(self, group_id: str) -> ConsumerGroup:
        """It is in no table yet."""
        return ConsumerGroup(group_id, self.table.image, self.topics)

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

    def refuse(self, token: Token, answer: Answer, error: ErrorCode, now_ms: int) -> None:
        """When all is committed on which the refusal may rest."""
        self.table.refuse(token, _told(answer), error, now_ms)


def _told(answer: Callable[[ErrorCode], object]) -> Callable[[ErrorCode], object]:
    return lambda error: answer(group_write_error(error))


def put(draft: Draft[AnyRecord], group_id: str, key: int, name: str, value: object) -> None:
    """`value` None takes it away."""
    draft.put(ConsumerRecord(group_id, value, key, name))
