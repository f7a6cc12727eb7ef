"""One partition that this node holds: its log, what the leader knows of its replicas, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID


class Partition:
    """A replica of one partition on this node; the leader's when `leader_epoch` is the epoch this node leads in."""

    __slots__ = (
        "_waiters",
        "high_watermark",
        "index",
        "last_stable_offset",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, index: int, topic_id: UUID, log: Any, leader_epoch: int) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark: int = log.log_end_offset
        self.last_stable_offset: int = self.high_watermark
        self._waiters: dict[Callable[[], None], None] = {}

    def append(self, batches: memoryview, *, acks: int, now_ms: int) -> Any:
        """Append as the leader: an AppendResult, or KafkaError as `PartitionLog.append_as_leader` says.

        With acks=-1 the caller waits until `high_watermark` has passed the result's last offset
        (`on_high_watermark`); on a partition with one replica that is so when this returns.
        """
        raise NotImplementedError

    def on_high_watermark(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` at each move of the high watermark until `forget` takes it back."""
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        """Take `waiter` back; one that is not there is fine."""
        self._waiters.pop(waiter, None)
