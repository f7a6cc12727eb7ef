"""What must hold at every moment, whatever happens.

* election safety: at most one leader in an epoch
* leader append-only: a leader never cuts its own log
* log matching: a batch of one epoch at one offset is the same everywhere, and so is what precedes it
* leader completeness: what is committed in an epoch is in the log of every leader of a later one
* state machine safety: nobody applies another batch at an offset than anybody else
* epochs and high watermarks never go back, epochs not even over a restart
* leases: while a leader holds its lease, nobody leads a later epoch, and nothing is committed that it has not applied
* voters: who has applied all up to an offset, by records or a snapshot, has the voters that the records before it name,
  or else those of the configuration; where voters may change, a committed record names them with their directories
"""

from tests.simulation.memory import Batch, MemoryLog

from penstock.raft.control import quorums_in
from penstock.raft.voters import CONFIGURED, Quorum


class InvariantError(AssertionError):
    """An invariant does not hold."""


class Invariants:
    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.leader_logs: dict[int, dict[int, int]] = {}
        self.batches: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.committed: dict[int, Batch] = {}
        self.committed_end = 0
        self.commit_epochs: dict[int, int] = {}
        self.state_at: dict[int, int] = {0: 0}
        self.epochs: dict[int, int] = {}
        self.quorums: list[tuple[int, Quorum]] = [(CONFIGURED, Quorum())]

    def appended(self, batch: Batch, previous_epoch: int) -> None:
        known = self.batches.setdefault((batch.base_offset, batch.epoch), (batch.data, previous_epoch))
        if known != (batch.data, previous_epoch):
            raise InvariantError(f"log matching: two batches at {batch.base_offset} of epoch {batch.epoch}")

    def led(self, node: int, epoch: int, log: MemoryLog) -> None:
        leader = self.leaders.setdefault(epoch, node)
        if leader != node:
            raise InvariantError(f"election safety: {leader} and {node} lead epoch {epoch}")
        if epoch in self.leader_logs:
            return
        has = {batch.base_offset: batch.epoch for batch in log.batches}
        self.leader_logs[epoch] = has
        for base, batch in reversed(self.committed.items()):
            if base < log.start_offset:
                break
            if has.get(base) != batch.epoch and self.commit_epochs[base] < epoch:
                raise InvariantError(f"leader completeness: {node} leads epoch {epoch} and lacks the batch at {base}")

    def acts_alone(self, node: int, epoch: int, applied: int, leaders: dict[int, int]) -> None:
        for other, other_epoch in leaders.items():
            if other_epoch > epoch:
                raise InvariantError(f"leases: {node} acts in epoch {epoch} while {other} leads epoch {other_epoch}")
        if applied < self.committed_end:
            raise InvariantError(f"leases: {node} acts and knows {applied} of {self.committed_end} committed records")

    def cut(self, node: int, leads: bool, end_offset: int) -> None:
        if leads:
            raise InvariantError(f"leader append-only: {node} cuts its log at {end_offset}")

    def epoch_seen(self, node: int, epoch: int) -> None:
        if epoch < self.epochs.get(node, 0):
            raise InvariantError(f"monotonic epochs: {node} went back to {epoch}")
        self.epochs[node] = epoch

    def applied(self, node: int, node_epoch: int, batch: Batch, state: int) -> None:
        known = self.committed.get(batch.base_offset)
        if known is None:
            self._commit(node, node_epoch, batch, state)
        elif known != batch:
            raise InvariantError(f"state machine safety: {node} applies another batch at {batch.base_offset}")

    def _commit(self, node: int, node_epoch: int, batch: Batch, state: int) -> None:
        if batch.base_offset != self.committed_end:
            raise InvariantError(f"state machine safety: {node} applies {batch.base_offset} after {self.committed_end}")
        self.committed[batch.base_offset] = batch
        self.commit_epochs[batch.base_offset] = node_epoch
        self.committed_end = batch.last_offset + 1
        self.state_at[self.committed_end] = state
        self.quorums += quorums_in(batch.data, self.quorums[-1][1])
        quorum = self._quorum_at(self.committed_end)
        if quorum.kraft_version and not all(voter.key.directory_id.int for voter in quorum.voters):
            raise InvariantError(f"voters: {node} commits voters without directories at {batch.base_offset}")
        for epoch, has in self.leader_logs.items():
            first = min(has, default=self.committed_end)
            if epoch > node_epoch and batch.base_offset >= first and has.get(batch.base_offset) != batch.epoch:
                raise InvariantError(
                    f"leader completeness: epoch {epoch} began without the batch at {batch.base_offset}"
                )

    def _quorum_at(self, end_offset: int) -> Quorum:
        return next(quorum for offset, quorum in reversed(self.quorums) if offset < end_offset or offset == CONFIGURED)

    def voters_known(self, node: int, end_offset: int, known: Quorum) -> None:
        expected = self._quorum_at(end_offset)
        if known.voters and expected.voters and known != expected:
            raise InvariantError(f"voters: {node} believes that {known.ids} vote at {end_offset}, not {expected.ids}")

    def loaded(self, node: int, end_offset: int, state: int) -> None:
        if self.state_at.get(end_offset) != state:
            raise InvariantError(f"state machine safety: {node} loads another state at {end_offset}")
