"""One partition of `__share_group_state` as its coordinator: all that can happen to its states, an event per method.

Each event takes `now_ms` and returns the effects. A request is about some share partitions, and is answered, once what
it rests on is committed, with as many results in the same order: each has an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from penstock.coordinator.effects import Effect, Token
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import PartitionMachine, Reading
from penstock.coordinator.share.batches import UNKNOWN_OFFSET, StateBatch
from penstock.coordinator.share.decisions import (
    NewerStateError,
    decide_delete,
    decide_initialize,
    decide_read,
    decide_write,
)
from penstock.coordinator.share.records import (
    NOT_COUNTED,
    SharePartitionKey,
    ShareRecord,
    ShareState,
    decode_record,
)
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.coordinator.share.table import BATCH_BYTES, ShareTable
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

FINISHED: Final = (2, 4)
"""Acknowledged and archived."""
STATES_AT_ONCE: Final = 200
"""That are looked up before others have their turn."""

DataT = TypeVar("DataT")
ResultT = TypeVar("ResultT")

Asked = Sequence[tuple[SharePartitionKey, DataT]]
"""What is asked, and of which share partitions."""

Decided = tuple[Callable[[], ResultT], ShareRecord | None]
"""The result if all goes well, and what is written for it."""


class ShareShard(PartitionMachine[ShareRecord]):
    reading: ClassVar[Reading] = Reading.EVERY_RECORD

    def __init__(self, settings: ShareCoordinatorSettings, cluster: ClusterImage) -> None:
        """The cluster is looked at, and changes: say when topics are gone (`topics_deleted`)."""
        self._table = ShareTable(settings, cluster)
        super().__init__(self._table)

    # -- life ---------------------------------------------------------------------------------------------------------

    decode = staticmethod(decode_record)

    def read(self, key: bytes, value: bytes | None, offset: int = -1) -> None:
        record = self.decode(key, value)
        if record is not None:
            self._table.image.apply(record)
            self._table.needed.note(record, offset)

    def loaded(self, now_ms: int) -> list[Effect]:
        """Topics may have gone while nobody coordinated."""
        self._table.drop_unknown(now_ms)
        self._table.schedule(now_ms)
        return self._table.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        self._table.fail_all(ErrorCode.NOT_COORDINATOR, now_ms)
        return self._table.take_effects()

    def topics_deleted(self, now_ms: int) -> list[Effect]:
        self._table.drop_unknown(now_ms)
        return self._table.take_effects()

    def describe(self) -> str:
        return f"{len(self._table.image.states)} share partitions"

    def positions(self, topic: str, topic_id: UUID) -> Iterator[dict[str, dict[int, int]]]:
        """Where share groups are in a topic, as `GroupShard.positions`: all before a start offset is finished with."""
        decided = (record.key for record, _ in self._table.uncommitted())  # also to be deleted, which may fail
        keys = [one for one in dict.fromkeys([*self._table.image.states, *decided]) if one.topic_id == topic_id]
        for start in range(0, len(keys), STATES_AT_ONCE):
            found: dict[str, dict[int, int]] = {}
            ahead: dict[SharePartitionKey, list[ShareState | None]] = {}
            for record, before in self._table.uncommitted():
                ahead.setdefault(record.key, []).append(before)
            for key in keys[start : start + STATES_AT_ONCE]:
                offsets = found.setdefault(key.group_id, {})
                known = [self._table.image.states.get(key), *ahead.get(key, ())]
                if all(state is not None and state.start_offset != UNKNOWN_OFFSET for state in known):
                    offsets[key.partition] = min(_finished_to(state) for state in known if state is not None)
            yield found

    def states(self) -> dict[SharePartitionKey, ShareState]:
        """As decided, for tests and diagnosis. Read only."""
        return self._table.image.states

    # -- requests -----------------------------------------------------------------------------------------------------

    def initialize(
        self, token: Token, asked: Asked[initialize_share_group_state.PartitionData], now_ms: int
    ) -> list[Effect]:
        """Answered with a PartitionResult each, as all of these."""
        result = initialize_share_group_state.PartitionResult

        def decide(key: SharePartitionKey, known: ShareState | None, data: Any) -> Decided[Any]:
            told = partial(result, partition=key.partition)
            try:
                record = decide_initialize(
                    key,
                    known,
                    data.state_epoch,
                    data.start_offset,
                    now_ms,
                    deleted_in=self._table.image.deleted_in(key),
                    heeds_deletions=data.heeds_deletions,
                )
            except NewerStateError as error:
                refused = {"error_code": error.code, "error_message": error.message}
                return partial(told, newest_epoch=error.newest_epoch, **refused), None
            return told, record

        return self._decide(token, asked, decide, result, now_ms)

    def write(self, token: Token, asked: Asked[write_share_group_state.PartitionData], now_ms: int) -> list[Effect]:
        result = write_share_group_state.PartitionResult

        def decide(key: SharePartitionKey, known: ShareState | None, data: Any) -> Decided[Any]:
            record = decide_write(key, known, _said(data), self._table.settings, now_ms)
            return partial(result, partition=key.partition), record

        return self._decide(token, asked, decide, result, now_ms)

    def read_state(self, token: Token, asked: Asked[read_share_group_state.PartitionData], now_ms: int) -> list[Effect]:
        """By the leader of the partition; an older one is refused from then on."""
        result = read_share_group_state.PartitionResult

        def decide(key: SharePartitionKey, known: ShareState | None, data: Any) -> Decided[Any]:
            state, record = decide_read(key, known, data.leader_epoch, self._table.settings, now_ms)
            return partial(_told, key.partition, state), record

        return self._decide(token, asked, decide, result, now_ms)

    def summarize(
        self, token: Token, asked: Asked[read_share_group_state_summary.PartitionData], now_ms: int
    ) -> list[Effect]:
        """For whoever is no leader; what is not initialized has no start offset, and is no error."""
        result = read_share_group_state_summary.PartitionResult

        def decide(key: SharePartitionKey, known: ShareState | None, data: Any) -> Decided[Any]:
            return partial(_summary, key.partition, known), None

        return self._decide(token, asked, decide, result, now_ms)

    def delete(self, token: Token, asked: Asked[delete_share_group_state.PartitionData], now_ms: int) -> list[Effect]:
        """What is not there is deleted."""
        result = delete_share_group_state.PartitionResult

        def decide(key: SharePartitionKey, known: ShareState | None, data: Any) -> Decided[Any]:
            if data.group_epoch >= 0 and self._table.knows(key):
                self._table.image.note_deletion(key, data.group_epoch)
            return partial(result, partition=key.partition), decide_delete(key, known)

        return self._decide(token, asked, decide, result, now_ms)

    def _decide(
        self,
        token: Token,
        asked: Asked[Any],
        decide: Callable[[SharePartitionKey, ShareState | None, Any], Decided[ResultT]],
        refused: Callable[..., ResultT],
        now_ms: int,
    ) -> list[Effect]:
        """One batch for all, or several where that would be too large; if one fails, so does all that was asked. What
        of it was written is right if it is asked again.
        """
        table, draft, size = self._table, self._table.draft(), 0
        results: list[Callable[[], ResultT]] = []
        for key, data in asked:
            try:
                result, record = decide(key, table.image.states.get(key), data)
                if not table.knows(key):
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
            except KafkaError as error:
                result = partial(refused, partition=key.partition, error_code=error.code, error_message=error.message)
                record = None
            results.append(result)
            if record is not None:
                draft.put(record)
                size += record.size
            if size > BATCH_BYTES:
                table.append_draft(draft, now_ms, then=table.noting(draft.records))
                draft, size = table.draft(), 0

        def answer(error: ErrorCode) -> list[ResultT]:
            if error is ErrorCode.NONE:
                return [result() for result in results]
            code = group_write_error(error)
            return [refused(partition=key.partition, error_code=code) for key, _ in asked]

        if draft.records:
            table.append_draft(draft, now_ms, then=table.noting(draft.records), token=token, answer=answer)
        else:
            table.answer_when_committed(token, answer, now_ms)
        return table.take_effects()


def _said(data: write_share_group_state.PartitionData) -> ShareState:
    batches = (
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count, batch.held_until_ms
        )
        for batch in data.state_batches
    )
    return ShareState(
        0, data.state_epoch, data.leader_epoch, data.start_offset, data.delivery_complete_count, tuple(batches)
    )


def _told(partition: int, state: ShareState) -> read_share_group_state.PartitionResult:
    return read_share_group_state.PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            read_share_group_state.StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.delivery_state,
                delivery_count=batch.delivery_count,
                held_until_ms=batch.held_until_ms,
            )
            for batch in state.batches
        ],
    )


def _summary(partition: int, state: ShareState | None) -> read_share_group_state_summary.PartitionResult:
    if state is None:
        return read_share_group_state_summary.PartitionResult(
            partition=partition, start_offset=UNKNOWN_OFFSET, delivery_complete_count=NOT_COUNTED
        )
    return read_share_group_state_summary.PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _finished_to(state: ShareState) -> int:
    """A start offset moves with the next write: what is finished with behind it counts as well."""
    position = state.start_offset
    for batch in sorted(state.batches, key=lambda batch: batch.first_offset):
        if batch.first_offset > position or batch.delivery_state not in FINISHED:
            break
        position = max(position, batch.last_offset + 1)
    return position
