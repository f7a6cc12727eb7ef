"""Which replicas a leader wants in its ISR: who comes in, and who lags for too long.

A replica comes in when its log has reached the high watermark and the start of the leader's epoch: then nothing that
is committed is missing in it, and nothing of an older leader is left over in it. It goes when it has not had all of
the leader's log for `replica.lag.time.max.ms`.

When a follower was last caught up is known from its fetches while records come. One that has everything is not looked
at again until more is appended, however often it asks meanwhile: `Watch` keeps the moment at which that happened.
"""

from penstock.protocol.value import Value
from penstock.replication.partition_leader import UNKNOWN, PartitionLeader


class IsrProposal(Value):
    """What a leader asks the controller for, and on what grounds."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """In the order of `isr`, -1 for replicas that were not heard of in this leader epoch (KIP-903)."""


def grown_isr(leader: PartitionLeader, replica: int) -> tuple[int, ...] | None:
    """None if it is in it, may not be in it, or another is proposed."""
    state = leader.followers.get(replica)
    if state is None or leader.proposed_isr is not None or replica in leader.isr:
        return None
    if state.log_end_offset < max(leader.high_watermark, leader.epoch_start_offset):
        return None
    return (*leader.isr, replica)


def keeps_up(leader: PartitionLeader, replica: int, now_ms: int, max_lag_ms: int) -> bool:
    """Whether a follower outside the ISR has lately had all of the log: it can come in if it is waited for.

    Where records come without a pause the high watermark would else be ahead of it at each of its fetches.
    """
    state = leader.followers.get(replica)
    if state is None or replica in leader.isr or state.last_caught_up_ms == UNKNOWN:
        return False
    return now_ms - state.last_caught_up_ms <= max_lag_ms


def proposal(leader: PartitionLeader, isr: tuple[int, ...], own_broker_epoch: int) -> IsrProposal:
    epochs = tuple(own_broker_epoch if replica == leader.node_id else _broker_epoch(leader, replica) for replica in isr)
    return IsrProposal(leader.leader_epoch, leader.partition_epoch, isr, epochs)


def _broker_epoch(leader: PartitionLeader, replica: int) -> int:
    state = leader.followers.get(replica)
    return UNKNOWN if state is None else state.broker_epoch


class Watch:
    """Looks at the followers of a leader from an append on, until all of them have everything again."""

    __slots__ = ("_end_offset", "_since_ms")

    def __init__(self, leader: PartitionLeader, now_ms: int) -> None:
        """Begin before an append: until then, replicas that have the whole log were caught up."""
        self._end_offset = leader.log_end_offset
        self._since_ms = now_ms

    def shrunk_isr(self, leader: PartitionLeader, now_ms: int, max_lag_ms: int) -> tuple[int, ...] | None:
        """None if no replica has lagged for longer than `max_lag_ms`."""
        lagging: dict[int, None] = {}
        for replica in leader.isr:
            state = leader.followers.get(replica)
            if state is None:
                continue
            if state.log_end_offset >= self._end_offset:
                state.last_caught_up_ms = max(state.last_caught_up_ms, self._since_ms)
            if state.log_end_offset < leader.log_end_offset and now_ms - state.last_caught_up_ms > max_lag_ms:
                lagging[replica] = None
        self._end_offset, self._since_ms = leader.log_end_offset, now_ms
        if not lagging or leader.proposed_isr is not None:
            return None
        return tuple(replica for replica in leader.isr if replica not in lagging)

    @staticmethod
    def is_over(leader: PartitionLeader) -> bool:
        return all(
            leader.followers[replica].log_end_offset >= leader.log_end_offset
            for replica in leader.isr
            if replica in leader.followers
        )
