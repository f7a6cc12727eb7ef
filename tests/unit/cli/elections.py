"""The batch with which the only voter of a metadata quorum begins its epoch."""

from penstock.protocol.control.records import control_batch
from penstock.raft.control import leader_change_record
from penstock.raft.voters import STATIC_VOTERS, Quorum, ReplicaKey, Voter


def election(node_id: int, epoch: int, *, now_ms: int) -> bytearray:
    key = ReplicaKey(node_id)
    record = leader_change_record(node_id, Quorum.of([Voter(key)], STATIC_VOTERS), [key], now_ms)
    return control_batch([record], base_offset=0, epoch=epoch)
