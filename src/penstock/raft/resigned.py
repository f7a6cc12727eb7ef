"""A voter that led this epoch and does so no longer."""

from collections.abc import Sequence
from typing import ClassVar

from penstock.raft.asking import Asking
from penstock.raft.requests import Answer, AskVersionsAnswer, EndEpoch, PeerRequest
from penstock.raft.role import Role, Roles
from penstock.raft.voters import ReplicaKey


class Resigned(Role):
    """Tells the voters that its epoch is over, and which of them should stand first, until they know."""

    __slots__ = ("_asking", "_election_deadline_ms", "_successors")
    name: ClassVar[str] = "Resigned"

    def __init__(self, roles: Roles, successors: Sequence[ReplicaKey], now_ms: int) -> None:
        super().__init__(roles)
        replica = roles.replica
        self._successors = tuple(successors)
        self._election_deadline_ms = now_ms + replica.election_timeout_ms()
        others = [voter.key.id for voter in replica.quorum.others(replica.me)]
        self._asking = Asking(replica.settings, others, now_ms)

    @property
    def deadline_ms(self) -> int:
        return min(self._election_deadline_ms, self._asking.next_ms)

    def enter(self, now_ms: int) -> None:
        self._tell(now_ms)

    def tick(self, now_ms: int) -> None:
        """When no voter was elected for long, take part again."""
        if now_ms >= self._election_deadline_ms:
            self.roles.begin_next_epoch(now_ms)
        else:
            self._tell(now_ms)

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        if isinstance(request, EndEpoch):
            self._asking.done(sender)

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        if isinstance(request, EndEpoch):
            self._asking.failed(to, now_ms)

    def _tell(self, now_ms: int) -> None:
        for peer in self._asking.take_due(now_ms):
            self.send(peer, EndEpoch(self.replica.epoch, self.replica.me.id, self._successors))
