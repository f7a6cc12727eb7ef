"""One partition of a storage group on this node: its own log, which holds nothing but what is committed.

So all of it may be read, it is never cut, and its end is the high watermark.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.log.partition_log import PartitionLog
from penstock.log.producers_ahead import ProducersAhead
from penstock.log.validation import AppendOrigin, AppendRules, check_batch
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.committed import Committed
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.waits import Waiter, Waits


class Observer(Protocol):
    def lead_changed(self) -> None:
        """This replica leads the group now, with all in its log that was proposed before; or it does no more."""

    def proposed(self, batch: memoryview) -> None:
        """By this replica; the batch has its offsets, and is in the log once it is agreed on."""


class GroupPartition:
    """`committed.waits` are called once, at their offset or when the lead is lost; `deletions` when the log begins
    there. The metadata had its topic at the offset `since`.
    """

    __slots__ = (
        "_rules",
        "committed",
        "deletions",
        "id",
        "log",
        "observer",
        "since",
        "topic",
    )

    def __init__(self, partition: PartitionId, topic: str, log: PartitionLog, since: int = 0) -> None:
        self.id = partition
        self.topic = topic
        self.since = since
        self.log = log
        self.committed = Committed(log.log_end_offset)
        self.deletions = Waits()
        self.observer: Observer | None = None
        self._rules = AppendRules(log.config)

    def __repr__(self) -> str:
        return f"GroupPartition({self.topic}-{self.id.number})"

    def observe(self, observer: Observer) -> None:
        """Tell it, and whoever was told before no more."""
        self.observer = observer

    @property
    def end_offset(self) -> int:
        """If nothing is under way."""
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """Of the last batch, or -1."""
        return self.log.latest_epoch

    @property
    def producers(self) -> ProducersAhead:
        """A view of the idempotent producers in which nothing is under way."""
        return ProducersAhead(self.log.producers, first_sequence_is_zero=self.log.config.first_sequence_is_zero)

    def check(self, batch: memoryview, now_ms: int, origin: AppendOrigin) -> tuple[memoryview, BatchHeader]:
        """The batch as the topic wants it, and its header. Raises KafkaError as `PartitionLog.append_as_leader`."""
        if self._rules.config is not self.log.config:
            self._rules = AppendRules(self.log.config)
        return check_batch(batch, self._rules, now_ms=now_ms, origin=origin, topic=self.topic)

    def apply(self, batches: Sequence[bytes]) -> None:
        """Append committed batches, but those that the log has: it is ahead of the group's after a start or a copy.

        Raises KafkaError(KAFKA_STORAGE_ERROR) if it lacks what comes before, and as `append_as_follower` says.
        """
        end_offset, missing = self.log.log_end_offset, []
        for batch in batches:
            header = read_header(batch)
            if header.last_offset < end_offset:
                continue
            if header.base_offset != end_offset:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"the log of {self.topic}-{self.id.number} ends at {end_offset}, and its storage group goes on from"
                    f" {header.base_offset}",
                )
            missing.append(batch)
            end_offset = header.last_offset + 1
        if missing:
            self.log.append_as_follower(memoryview(b"".join(missing)))

    def begin_at(self, offset: int, now_ms: int) -> Sequence[Waiter]:
        """The offset is not behind the log's end; returns the waiters. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        if offset > self.log.log_start_offset:
            self.log.advance_log_start(offset)
            self.log.retire_below_start(now_ms)
        return self.deletions.take_due(self.log.log_start_offset)

    def waiting(self) -> Sequence[Waiter]:
        return [*self.committed.waits.take_all(), *self.deletions.take_all()]

    def copy(self, start_offset: int, batches: bytes) -> bool:
        """Take over what another replica's log has behind this one's end; whether there was anything."""
        end_offset = self.log.log_end_offset
        if start_offset > end_offset:
            self.log.truncate_fully_and_start_at(start_offset, durable=True)
            return True
        if not batches or not read_header(batches).base_offset <= end_offset <= read_header(batches).last_offset:
            return False  # nothing, or what was applied meanwhile
        self.log.append_as_follower(memoryview(batches))
        return True
