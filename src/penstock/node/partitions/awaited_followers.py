"""Followers that are about to ask for a partition which this node leads since a moment: none sleeps in a long poll.

A follower that has everything waits here, for `replica.fetch.wait.max.ms` at most, for records of the partitions that
it follows already. When this node begins to lead another one, the follower's next request names that, too, and before
nothing of it can be committed. So its polls are answered when the term begins, and those that come are short ones,
until it has asked for all that it should, or has had its time. A follower need not know this rule: Kafka's gain by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from penstock.node.partitions.isr_partition import IsrPartition
from penstock.replication.partition_leader import UNKNOWN, PartitionLeader

SHORT_MS: Final = 5
"""How long a poll takes whose follower has not heard yet what it should ask for."""
PATIENCE_MS: Final = 1_000
"""How long a follower may take to hear of it."""

Awaited = tuple[IsrPartition, PartitionLeader, int]
"""The partition, its term, and when to stop waiting for the follower to ask for it."""


class Poll(Protocol):
    """A request of a follower that waits for records."""

    def cut_short(self) -> None: ...


class AwaitedFollowers:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._awaited: dict[int, deque[Awaited]] = {}
        self._polls: dict[int, dict[Poll, None]] = {}

    def led(self, partition: IsrPartition) -> None:
        """This node begins to lead the partition: replicas in sync are to ask for it."""
        leader = partition.leader
        if leader is None:
            return
        now_ms = self._now_ms()
        self._give_up(now_ms)
        for replica in leader.isr:
            if replica in leader.followers:
                self._awaited.setdefault(replica, deque()).append((partition, leader, now_ms + PATIENCE_MS))
                for poll in list(self._polls.get(replica, ())):
                    poll.cut_short()

    def wait_ms(self, replica: int, longest_ms: int) -> int:
        """How long a poll of this follower may wait that asks to wait for `longest_ms`."""
        if not self._awaited:
            return longest_ms
        self._give_up(self._now_ms())
        awaited = self._awaited.get(replica)
        while awaited:
            partition, leader, _ = awaited[0]
            state = leader.followers.get(replica)
            if partition.leader is leader and state is not None and state.log_end_offset == UNKNOWN:
                return min(longest_ms, SHORT_MS)
            awaited.popleft()
        self._awaited.pop(replica, None)
        return longest_ms

    def _give_up(self, now_ms: int) -> None:
        """Those that ask no more: what they were awaited for may have gone."""
        for replica, awaited in list(self._awaited.items()):
            while awaited and awaited[0][-1] <= now_ms:
                awaited.popleft()
            if not awaited:
                del self._awaited[replica]

    def wait(self, replica: int, poll: Poll) -> None:
        self._polls.setdefault(replica, {})[poll] = None

    def over(self, replica: int, poll: Poll) -> None:
        polls = self._polls.get(replica)
        if polls is not None:
            polls.pop(poll, None)
            if not polls:
                del self._polls[replica]
