"""Who of a group's members leads, which is who assigns: one policy for each protocol type.

Groups of workers (`protocol/work.py`) take the member with the largest position, in each generation anew. All others,
as in Kafka, take the member that joined first, and keep it as long as it takes part.
"""

from collections.abc import Iterable

from penstock.coordinator.group.classic.member import Member
from penstock.protocol.work import PROTOCOL_TYPE, position_of


def elect_leader(protocol_type: str | None, leader_id: str | None, candidates: Iterable[Member]) -> str | None:
    """`candidates` in the order in which they joined; None if there are none.

    `leader_id` is the leader so far. Called before each generation, and for the first leader behind one that left.
    """
    if protocol_type == PROTOCOL_TYPE:
        farthest = max(candidates, key=_position, default=None)
        return None if farthest is None else farthest.member_id
    first: str | None = None
    for member in candidates:
        if member.member_id == leader_id:
            return leader_id
        first = first or member.member_id
        if leader_id is None:
            break
    return first


def _position(member: Member) -> int:
    return max((position_of(metadata) for _, metadata in member.protocols), default=0)
