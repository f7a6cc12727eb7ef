"""What becomes of a share partition by a request about it: a record, or nothing that is to be written.

| asked for | what is written |
| --- | --- |
| initialize | a snapshot that begins anew; nothing where that was done in this epoch: its answer was lost |
| write | an update, or, after so many of them, a snapshot |
| read | that the leader has a newer epoch, if it has |
| delete | that nothing is left |

A leader, or a state, of an older epoch than one that was heard of is refused, also where the state began anew since
then: Kafka says leader epoch 0 in that snapshot, and forgets with the log before it whom it has fenced. What was
deleted and begins again has the leader epoch `UNREAD`: a leader that writes before it has read that has what was there
before, and is refused. What was deleted begins in a later epoch than that of the group which deleted it: a request that
comes late is of the group as it was before. Kafka lets it begin, and the next group of that name where it did. All
functions raise KafkaError.
"""

from collections.abc import Sequence

from penstock.coordinator.share.batches import UNKNOWN_OFFSET, StateBatch, merged
from penstock.coordinator.share.records import (
    NOT_COUNTED,
    UNREAD,
    SharePartitionKey,
    ShareRecord,
    ShareState,
    Snapshot,
    Update,
)
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.protocol.errors import ErrorCode, KafkaError


class NewerStateError(KafkaError):
    """FENCED_STATE_EPOCH: the state is of another epoch, or was deleted in it."""

    def __init__(self, newest_epoch: int, reason: str) -> None:
        super().__init__(ErrorCode.FENCED_STATE_EPOCH, reason)
        self.newest_epoch = newest_epoch


def decide_initialize(
    key: SharePartitionKey,
    known: ShareState | None,
    state_epoch: int,
    start_offset: int,
    now_ms: int,
    *,
    deleted_in: int | None = None,
    heeds_deletions: bool = False,
) -> ShareRecord | None:
    """`deleted_in`: the epoch up to which it was deleted before, if it was."""
    _check_epoch("state", state_epoch)
    if known is not None and state_epoch < known.state_epoch:
        raise _fenced_state(state_epoch, known)
    if known is not None and state_epoch == known.state_epoch:
        return None
    if heeds_deletions and deleted_in is not None and state_epoch <= deleted_in:
        raise NewerStateError(deleted_in, f"The state was deleted in epoch {deleted_in}, at or after {state_epoch}.")
    counted = NOT_COUNTED if start_offset == UNKNOWN_OFFSET else 0
    snapshots, leader_epoch = (0, 0 if deleted_in is None else UNREAD)
    if known is not None:
        snapshots, leader_epoch = known.snapshot_epoch + 1, known.leader_epoch
    state = ShareState(
        snapshots, state_epoch, leader_epoch, start_offset, counted, created_ms=now_ms, written_ms=now_ms
    )
    return Snapshot(key, state)


def decide_write(
    key: SharePartitionKey,
    known: ShareState | None,
    said: ShareState,
    settings: ShareCoordinatorSettings,
    now_ms: int,
) -> ShareRecord:
    """`said` has the epochs of whoever writes, and the start offset, count and batches that are new."""
    _check_epoch("leader", said.leader_epoch)
    _check_epoch("state", said.state_epoch)
    if known is None:
        raise _uninitialized("written")
    _check_leader(said.leader_epoch, known)
    if said.state_epoch < known.state_epoch:
        raise _fenced_state(said.state_epoch, known)
    if known.leader_epoch == UNREAD:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "The state has begun anew: read it first.")
    _check_batches(said.batches)
    return _changed(key, known, said.replace(leader_epoch=known.leader_epoch), settings, now_ms)


def decide_read(
    key: SharePartitionKey,
    known: ShareState | None,
    leader_epoch: int,
    settings: ShareCoordinatorSettings,
    now_ms: int,
) -> tuple[ShareState, ShareRecord | None]:
    """The state as the leader is told it, and what is written for that it asks."""
    _check_epoch("leader", leader_epoch)
    if known is None:
        raise _uninitialized("read")
    _check_leader(leader_epoch, known)
    if leader_epoch == known.leader_epoch:
        return known, None
    return known, _changed(key, known, known.replace(leader_epoch=leader_epoch, batches=()), settings, now_ms)


def decide_delete(key: SharePartitionKey, known: ShareState | None) -> ShareRecord | None:
    return None if known is None else Snapshot(key, None)


def renewed(key: SharePartitionKey, known: ShareState, now_ms: int) -> ShareRecord:
    """The same as a snapshot, so that the log may begin later."""
    return Snapshot(key, known.replace(snapshot_epoch=known.snapshot_epoch + 1, written_ms=now_ms, updates=0))


def _changed(
    key: SharePartitionKey, known: ShareState, said: ShareState, settings: ShareCoordinatorSettings, now_ms: int
) -> ShareRecord:
    start_offset = max(said.start_offset, known.start_offset)
    count = said.delivery_complete_count
    if said.start_offset == known.start_offset:
        count = max(count, known.delivery_complete_count)
    elif said.start_offset < known.start_offset:
        count = known.delivery_complete_count
    if known.updates < settings.updates_per_snapshot:
        new = merged((), said.batches, start_offset)
        return Update(key, known.snapshot_epoch, said.leader_epoch, start_offset, count, new)
    state = ShareState(
        known.snapshot_epoch + 1,
        known.state_epoch,
        said.leader_epoch,
        start_offset,
        count,
        merged(known.batches, said.batches, start_offset),
        now_ms,
        now_ms,
    )
    return Snapshot(key, state)


def _check_epoch(whose: str, epoch: int) -> None:
    if epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The {whose} epoch cannot be a negative number.")


def _check_leader(leader_epoch: int, known: ShareState) -> None:
    if leader_epoch < known.leader_epoch:
        newest = known.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"A leader of epoch {newest} has come after {leader_epoch}.")


def _check_batches(batches: Sequence[StateBatch]) -> None:
    for batch in batches:
        if not 0 <= batch.first_offset <= batch.last_offset:
            reach = f"{batch.first_offset} to {batch.last_offset}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"No batch can go from {reach}.")


def _fenced_state(state_epoch: int, known: ShareState) -> NewerStateError:
    newest = known.state_epoch
    return NewerStateError(newest, f"The state was initialized in epoch {newest} after {state_epoch}.")


def _uninitialized(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"The share partition is not initialized and cannot be {what}.")
