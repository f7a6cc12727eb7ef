"""Which replica a consumer should read from instead of the leader (KIP-392)."""

from collections.abc import Callable
from typing import Final

from penstock.replication.partition_leader import PartitionLeader

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""As `replica.selector.class` names it."""
NO_REPLICA: Final = -1


def nearest_replica(leader: PartitionLeader, offset: int, is_near: Callable[[int], bool]) -> int:
    """In sync, and the one that is ahead. NO_REPLICA where there is none, or where the leader is near itself."""
    if is_near(leader.node_id):
        return NO_REPLICA
    near = [
        (state.log_end_offset, state.last_caught_up_ms, replica)
        for replica, state in leader.followers.items()
        if replica in leader.isr and state.log_start_offset <= offset <= state.log_end_offset and is_near(replica)
    ]
    return max(near)[2] if near else NO_REPLICA
