"""A voter that led this epoch and does so no longer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from penstock.raft.asking import Asking
from penstock.raft.effects import Send
from penstock.raft.requests import EndEpoch, EndEpochAnswer, PeerRequest
from penstock.raft.role import Role
from penstock.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from penstock.raft.replica import Replica


class Resigned(Role):
    """Tells the voters that its epoch is over, and who should stand first, until they know."""

    __slots__ = ("_asking", "_election_deadline_ms", "_successors")
    name: ClassVar[str] = "Resigned"

    def __init__(self, replica: "Replica", successors: Sequence[ReplicaKey], now_ms: int) -> None:
        super().__init__(replica)
        self._successors = tuple(successors)
        self._election_deadline_ms = now_ms + replica.election_timeout_ms()
        others = [voter.key.id for voter in replica.quorum.others(replica.me)]
        self._asking = Asking(replica.settings, others, now_ms)

    @property
    def deadline_ms(self) -> int:
        """The election time-out, or the next time to tell somebody."""
        return min(self._election_deadline_ms, self._asking.next_ms)

    def enter(self, now_ms: int) -> None:
        """Tell everybody."""
        self._tell(now_ms)

    def tick(self, now_ms: int) -> None:
        """Tell those who do not know; when nobody was elected for long, take part again."""
        if now_ms >= self._election_deadline_ms:
            self.replica.begin_next_epoch(now_ms)
        else:
            self._tell(now_ms)

    def end_epoch_answered(self, sender: int, request: EndEpoch, answer: EndEpochAnswer, now_ms: int) -> None:
        """This voter knows."""
        self._asking.done(sender)
        super().end_epoch_answered(sender, request, answer, now_ms)

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        """Tell it again soon."""
        if isinstance(request, EndEpoch):
            self._asking.failed(to, now_ms)

    def _tell(self, now_ms: int) -> None:
        for peer in self._asking.take_due(now_ms):
            self.replica.out.append(Send(peer, EndEpoch(self.replica.epoch, self.replica.me.id, self._successors)))
