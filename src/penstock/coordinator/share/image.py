"""What the records of a partition of `__share_group_state` add up to, and where what is needed begins."""

from typing import Final

from penstock.coordinator.machine import LogImage
from penstock.coordinator.share.records import SharePartitionKey, ShareRecord, ShareState, Snapshot, TakenBack

MOST_DELETED: Final = 10_000


class ShareImage(LogImage[ShareRecord]):
    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        """Read only."""
        self._deleted: dict[int, int] = {}
        """By the hashes of their keys, as names of groups have up to 32 kB: who shares another one's goes to a later
        epoch for nothing.
        """

    def apply(self, record: ShareRecord) -> ShareState | None:
        before = self.states.get(record.key)
        after = record.after(before)
        if after is not None:
            self.states[record.key] = after
        elif before is not None:
            del self.states[record.key]
            if not isinstance(record, TakenBack):  # who could not begin may begin in the same epoch, when asked again
                self.note_deletion(record.key, before.state_epoch)
        return before

    def note_deletion(self, key: SharePartitionKey, up_to_epoch: int) -> None:
        """Before it is written, too: what it says of the past stays true should that fail."""
        known = hash(key)
        self._deleted[known] = max(up_to_epoch, self._deleted.pop(known, -1))
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def deleted_in(self, key: SharePartitionKey) -> int | None:
        """The epoch up to which it was deleted, if it is one of the last `MOST_DELETED`: leaders may have what it was,
        and what was to initialize it may be under way.
        """
        return self._deleted.get(hash(key))

    def undoing(self, record: ShareRecord, before: ShareState | None) -> ShareRecord:
        return TakenBack(record.key, before)


class Needed:
    """The offset at which the log may begin: that of the oldest snapshot that is the last one of its share partition.

    Only what is committed counts. Where nothing is left, the log may begin at the record that took the last away.
    """

    def __init__(self) -> None:
        self._snapshots: dict[SharePartitionKey, int] = {}
        self._end = 0

    def note(self, record: ShareRecord, offset: int) -> None:
        if not isinstance(record, Snapshot):
            return
        if record.state is None:
            self._snapshots.pop(record.key, None)
        else:
            self._snapshots[record.key] = offset
        self._end = offset

    @property
    def offset(self) -> int:
        return min(self._snapshots.values(), default=self._end)
