"""What a leader knows of the replicas that fetch from it: how far they are, and when they were last heard."""

import math

from penstock.leadership.lease import Holder
from penstock.raft.requests import Promise
from penstock.raft.settings import MAX_OBSERVERS, NEVER, OBSERVER_SESSION_MS
from penstock.raft.voters import Quorum, ReplicaKey

UNKNOWN = -1


class Progress:
    __slots__ = ("_answer", "_leader_end_then", "caught_up_ms", "end_offset", "fetched_ms", "heard_ms", "key", "lease")

    def __init__(self, key: ReplicaKey, now_ms: int) -> None:
        self.key = key
        self.end_offset = UNKNOWN
        self.fetched_ms = UNKNOWN
        self.caught_up_ms = UNKNOWN
        self.heard_ms = now_ms
        self._leader_end_then = UNKNOWN
        self._answer = (0, UNKNOWN)
        self.lease = Holder(0)

    def answered(self, number: int, now_ms: int) -> None:
        """The answer of this number is sent now."""
        self._answer = (number, now_ms)

    def promised(self, promise: Promise, max_drift: float) -> None:
        """The replica has got the answer of this number, and promised then: so not before that answer was sent."""
        number, sent_ms = self._answer
        if promise.answer != number:
            return
        if self.lease.granted != promise.length_ms:
            self.lease = Holder(promise.length_ms, max_drift)
        self.lease.renewed(sent_ms)

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """The replica has everything before `offset` on its disk."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self.fetched_ms != UNKNOWN and offset >= self._leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)  # it had the whole log then
        self.end_offset = offset
        self.fetched_ms = now_ms
        self._leader_end_then = leader_end_offset


class ReplicaTable:
    __slots__ = ("_replicas", "_started_ms")

    def __init__(self, now_ms: int) -> None:
        self._replicas: dict[ReplicaKey, Progress] = {}
        self._started_ms = now_ms

    def heard(self, key: ReplicaKey, quorum: Quorum, now_ms: int) -> Progress:
        progress = self._replicas.pop(key, None) or Progress(key, now_ms)
        progress.heard_ms = now_ms
        self._replicas[key] = progress  # those heard last stand last
        self._forget_observers(quorum, now_ms)
        return progress

    def find(self, key: ReplicaKey) -> Progress | None:
        """A voter that the log names without a directory may fetch with one."""
        exact = self._replicas.get(key)
        if exact is not None:
            return exact
        return next((p for p in reversed(self._replicas.values()) if key.names(p.key)), None)

    def observers(self, quorum: Quorum) -> list[Progress]:
        """In the order of their ids."""
        found = [progress for progress in self._replicas.values() if not quorum.has(progress.key)]
        return sorted(found, key=lambda progress: progress.key.id)

    def majority_end_offset(self, quorum: Quorum, me: ReplicaKey, my_end_offset: int) -> int:
        ends = [my_end_offset if voter.key.names(me) else self._end_offset_of(voter.key) for voter in quorum.voters]
        return sorted(ends, reverse=True)[quorum.majority - 1]

    def majority_heard_ms(self, quorum: Quorum, me: ReplicaKey) -> int:
        """Since when less than a majority has been heard, if no voter is heard from now on."""
        others = quorum.others(me)
        needed = quorum.majority - (len(others) < len(quorum.voters))
        if needed == 0:
            return NEVER
        found = (self.find(voter.key) for voter in others)
        times = sorted((self._started_ms if p is None else p.heard_ms for p in found), reverse=True)
        return times[needed - 1]

    def majority_promised_until(self, quorum: Quorum, me: ReplicaKey) -> float:
        """Until when a majority votes for no other voter, by the leader's clock; its own vote does not count."""
        ends = []
        for voter in quorum.voters:
            progress = self.find(voter.key)
            if voter.key.names(me):
                ends.append(math.inf)
            else:
                ends.append(-math.inf if progress is None else progress.lease.until)
        return sorted(ends, reverse=True)[quorum.majority - 1]

    def by_end_offset(self, quorum: Quorum, me: ReplicaKey) -> list[ReplicaKey]:
        """The longest log comes first."""
        others = [voter.key for voter in quorum.others(me)]
        return sorted(others, key=lambda key: (-self._end_offset_of(key), key.id))

    def _end_offset_of(self, key: ReplicaKey) -> int:
        progress = self.find(key)
        return UNKNOWN if progress is None else progress.end_offset

    def _forget_observers(self, quorum: Quorum, now_ms: int) -> None:
        silent_ms = now_ms - OBSERVER_SESSION_MS
        spare = len(self._replicas) - MAX_OBSERVERS
        forgotten: list[ReplicaKey] = []
        for progress in self._replicas.values():  # those heard last stand last
            if progress.heard_ms >= silent_ms and spare <= len(forgotten):
                break
            if not quorum.has(progress.key):
                forgotten.append(progress.key)
        for key in forgotten:
            del self._replicas[key]
