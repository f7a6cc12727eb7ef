"""What a follower of one partition knows: whom it follows, and the high watermark that its leader told it.

| event          | cause                                               | may move the high watermark        |
| -------------- | --------------------------------------------------- | ---------------------------------- |
| `on_appended`  | records of the leader, or its high watermark, came  | up, at most to the log's end       |
| `on_metadata`  | a change of the partition was committed             | no                                 |
| `on_epoch_over`| another leader, this replica or a new epoch         | no; wakes all waiters                |

A new leader may know of less than is committed, so what it tells never moves the high watermark back.
"""

from collections.abc import Sequence

from penstock.replication.committed import Committed
from penstock.replication.waits import Waiter

UNKNOWN = -1


class PartitionFollower:
    """Belongs to one leader epoch; `leader_id` is -1 where there is no leader."""

    __slots__ = (
        "_has_caught_up",
        "_is_in_sync",
        "committed",
        "leader_epoch",
        "leader_high_watermark",
        "leader_id",
    )

    def __init__(self, leader_id: int, leader_epoch: int, committed: Committed, *, is_in_sync: bool = False) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.committed = committed
        self.leader_high_watermark = UNKNOWN
        self._is_in_sync = is_in_sync
        self._has_caught_up = False

    @property
    def may_be_held_back(self) -> bool:
        """Not while the leader may wait for it with what it commits: it is in sync, or has once had all that the leader
        of this epoch had committed, and may come in.
        """
        return not self._is_in_sync and not self._has_caught_up

    def on_appended(self, log_end_offset: int, leader_high_watermark: int) -> Sequence[Waiter]:
        """What the leader sent is in the log, which ends here now; returns the waiters that are due."""
        self.leader_high_watermark = leader_high_watermark
        if log_end_offset >= leader_high_watermark:
            self._has_caught_up = True
        return self.committed.advance(min(leader_high_watermark, log_end_offset))

    def on_metadata(self, *, is_in_sync: bool) -> None:
        self._is_in_sync = is_in_sync

    def on_epoch_over(self) -> Sequence[Waiter]:
        """All waiters look at what holds in the next epoch."""
        return self.committed.waits.take_all()
