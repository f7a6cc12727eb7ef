"""A replica with an in-memory disk, for tests that hand it single events."""

from random import Random
from uuid import UUID

from tests.simulation.memory import MemoryLog, MemorySnapshots

from penstock.protocol.control.records import control_batch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch
from penstock.raft.control import voters_record_of
from penstock.raft.effects import Effect, ElectionState, Reply, Send
from penstock.raft.machine import Raft
from penstock.raft.requests import Answer, PeerRequest, Vote, VoteAnswer
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter

YES = ErrorCode.NONE


def voter(node_id: int) -> Voter:
    return Voter(ReplicaKey(node_id, UUID(int=node_id)))


def quorum(*ids: int) -> Quorum:
    return Quorum.of([voter(node_id) for node_id in ids], DYNAMIC_VOTERS)


def log_of(*epochs: int) -> MemoryLog:
    """A record of each of these epochs, all on the disk."""
    log = MemoryLog()
    for offset, epoch in enumerate(epochs):
        record = Record(timestamp_ms=0, value=b"%d" % offset)
        log.append(encode_batch([record], base_offset=offset, partition_leader_epoch=epoch))
    log.flush()
    return log


def add_voters(log: MemoryLog, *ids: int) -> None:
    """A record that names these voters."""
    records = [voters_record_of(quorum(*ids), 0)]
    log.append(control_batch(records, base_offset=log.end_offset, epoch=log.last_epoch))


def raft_of(
    node_id: int,
    configured: Quorum,
    log: MemoryLog | None = None,
    state: ElectionState | None = None,
    settings: RaftSettings | None = None,
) -> Raft:
    """A consensus core that was not started yet."""
    return Raft(
        voter(node_id),
        configured,
        settings or RaftSettings(),
        log or MemoryLog(),
        MemorySnapshots(),
        Random(node_id),
        state or ElectionState(),
    )


def sent(effects: list[Effect]) -> list[tuple[int, PeerRequest]]:
    return [(effect.to, effect.request) for effect in effects if isinstance(effect, Send)]


def answered(effects: list[Effect]) -> Answer:
    (answer,) = (effect.answer for effect in effects if isinstance(effect, Reply))
    return answer


def elect(raft: Raft) -> int:
    """Gives it the votes of all others; returns when."""
    now_ms = raft.deadline_ms
    requests = sent(raft.tick(now_ms))
    for _ in range(2):
        more: list[tuple[int, PeerRequest]] = []
        for to, request in requests:
            assert isinstance(request, Vote)
            more += sent(raft.answered(to, request, VoteAnswer(YES, None, request.epoch, True), now_ms))
        requests = [(to, request) for to, request in more if isinstance(request, Vote)]
    return now_ms
