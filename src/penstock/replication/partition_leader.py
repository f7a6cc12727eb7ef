"""What the leader of one partition knows of its replicas, and from it the high watermark.

A record is committed when every replica in the ISR has it: the high watermark is the smallest log end offset in the
ISR, and never goes back while this replica leads. On a partition whose ISR is the leader alone, an append is
committed at once.

| event                    | cause                               | may move the high watermark |
| ------------------------ | ----------------------------------- | --------------------------- |
| `on_appended`            | the leader's own log grew           | yes                         |
| `on_truncated`           | the log was emptied or cut          | yes, backwards              |
| `on_isr_changed`         | a committed PartitionChangeRecord   | yes                         |
"""

from __future__ import annotations

from collections.abc import Sequence


class PartitionLeader:
    """The leader's view of one partition in one leader epoch. Every method costs less than a microsecond."""

    __slots__ = ("high_watermark", "isr", "leader_epoch", "log_end_offsets", "node_id")

    def __init__(
        self, node_id: int, leader_epoch: int, isr: Sequence[int], log_end_offset: int, high_watermark: int
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.isr: tuple[int, ...] = tuple(isr)
        self.log_end_offsets: dict[int, int] = {node_id: log_end_offset}
        self.high_watermark = high_watermark
        self._advance()

    def on_appended(self, log_end_offset: int) -> bool:
        """The leader's log grew. Returns whether the high watermark moved."""
        self.log_end_offsets[self.node_id] = log_end_offset
        return self._advance()

    def on_truncated(self, log_end_offset: int) -> None:
        """The leader's log was emptied to start at `log_end_offset`."""
        self.log_end_offsets[self.node_id] = log_end_offset
        self.high_watermark = log_end_offset

    def on_isr_changed(self, isr: Sequence[int]) -> bool:
        """The committed metadata names another ISR. Returns whether the high watermark moved."""
        self.isr = tuple(isr)
        return self._advance()

    def _advance(self) -> bool:
        isr = self.isr
        if len(isr) == 1 and isr[0] == self.node_id:
            committed = self.log_end_offsets[self.node_id]
        else:
            # A replica that has not fetched in this epoch is known to hold nothing beyond the high watermark.
            offsets = self.log_end_offsets
            committed = min((offsets.get(replica, self.high_watermark) for replica in isr), default=self.high_watermark)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True
