"""Partitions that transactions write to, by Kafka's rules for producers and markers, as a model."""

from __future__ import annotations

from typing import NamedTuple

from penstock.coordinator.effects import Markers
from penstock.coordinator.transaction.transaction import RAISES_EPOCHS
from penstock.protocol.errors import ErrorCode


class Written(NamedTuple):
    """A record of a producer's transaction, or (`commits` is not None) the marker of its end."""

    producer_id: int
    epoch: int
    transaction: int = -1
    commits: bool | None = None
    coordinator_epoch: int = -1


class LoggedPartition:
    """What lies behind `committed` is lost when another replica leads."""

    def __init__(self) -> None:
        self.log: list[Written] = []
        self.committed = 0

    def commit(self) -> None:
        self.committed = len(self.log)

    def lose_tail(self) -> None:
        del self.log[self.committed :]

    def _last(self, producer_id: int) -> Written | None:
        return next((it for it in reversed(self.log) if it.producer_id == producer_id), None)

    def produce(self, producer_id: int, epoch: int, transaction: int) -> ErrorCode:
        last = self._last(producer_id)
        if last is not None and epoch < last.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.log.append(Written(producer_id, epoch, transaction))
        return ErrorCode.NONE

    def mark(self, job: Markers) -> ErrorCode:
        last = self._last(job.producer_id)
        newest = max(
            (it.coordinator_epoch for it in self.log if it.producer_id == job.producer_id and it.commits is not None),
            default=-1,
        )
        if job.coordinator_epoch < newest:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        epoch, is_open = (-1, False) if last is None else (last.epoch, last.commits is None)
        if job.transaction_version >= RAISES_EPOCHS and job.producer_epoch == epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH if is_open else ErrorCode.NONE
        if job.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.log.append(
            Written(job.producer_id, job.producer_epoch, commits=job.commits, coordinator_epoch=job.coordinator_epoch)
        )
        return ErrorCode.NONE

    def fates(self) -> list[tuple[int, bool | None]]:
        """Each transaction that wrote here, and whether that is committed; None where it has no end."""
        found: list[tuple[int, bool | None]] = []
        ends: dict[int, bool] = {}
        for it in reversed(self.log):
            if it.commits is not None:
                ends[it.producer_id] = it.commits
            else:
                found.append((it.transaction, ends.get(it.producer_id)))
        return found
