"""Which voters have caught up with the leader of a storage group; and what that does next, that its voters become the
replicas that the metadata want.

| what it sees                                              | what it does                                        |
| --------------------------------------------------------- | --------------------------------------------------- |
| a replica has caught up, and has no vote                  | it gets one                                         |
| the same, and its node votes with a directory it had before | that vote is taken from it first                  |
| all wanted replicas vote, and another one does            | that one votes no longer; the leader itself comes last |

One change at a time, and each look begins from what is so: a leader that takes over goes on where another one stopped.
"""

from collections.abc import Collection, Mapping

from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.requests import AddVoter, RemoveVoter


def next_change(
    quorum: QuorumDescription, wanted: Collection[int], within_ms: int, since_ms: int
) -> AddVoter | RemoveVoter | None:
    """None when all is as it is wanted, or the wanted replicas have not caught up within that time, or not been heard
    since it is wanted: one that has left, and whose log is gone, would get a vote that nobody can use.

    Two directories of a node never vote at once: a majority of them would be no majority of the nodes.
    """
    votes = {voter.key.id: voter for voter in quorum.voters}
    leader = votes.get(quorum.leader_id)
    if leader is None:  # it goes in a moment
        return None
    for node_id, newest in _newest(quorum.observers).items():
        is_well = newest.last_caught_up_ms >= 0 and leader.last_caught_up_ms - newest.last_caught_up_ms <= within_ms
        if node_id not in wanted or not is_well or newest.last_fetch_ms < since_ms:
            continue
        before = votes.get(node_id)
        if before is None:
            return AddVoter(newest.key)
        if before.last_fetch_ms < newest.last_fetch_ms:
            return RemoveVoter(before.key)
    if not votes.keys() > set(wanted):
        return None
    others = [voter.key for node_id, voter in votes.items() if node_id not in wanted]
    return RemoveVoter(min(others, key=lambda key: (key.id == quorum.leader_id, key.id)))


def caught_up(
    quorum: QuorumDescription, within_ms: int, live: Collection[int], before_ms: Mapping[int, int]
) -> list[int]:
    """The leader, and the live nodes whose replicas had all there was at most `within_ms` ago.

    `before_ms` says when replicas had it that were heard by an earlier leader.
    """
    times_ms = {voter.key.id: voter.last_caught_up_ms for voter in quorum.voters}
    times_ms |= {node_id: max(times_ms[node_id], at_ms) for node_id, at_ms in before_ms.items() if node_id in times_ms}
    since_ms = max(times_ms.get(quorum.leader_id, within_ms) - within_ms, 0)
    return [one for one, at_ms in times_ms.items() if one == quorum.leader_id or (one in live and at_ms >= since_ms)]


def _newest(observers: Collection[ReplicaDescription]) -> dict[int, ReplicaDescription]:
    return {observer.key.id: observer for observer in sorted(observers, key=lambda one: one.last_fetch_ms)}
