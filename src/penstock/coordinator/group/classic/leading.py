"""Who of a group's members leads, which is who assigns: one policy for each protocol type.

Groups of all types so far take the member that joined first, and keep it as long as it takes part.
"""

from collections.abc import Iterable

from penstock.coordinator.group.classic.member import Member


def elect_leader(protocol_type: str | None, leader_id: str | None, candidates: Iterable[Member]) -> str | None:
    """The member id of the leader; `candidates` in the order in which they joined, None if there are none.

    `leader_id` is who leads so far. Called when a group forms, when its leader leaves, and before each generation.
    """
    first: str | None = None
    for member in candidates:
        if member.member_id == leader_id:
            return leader_id
        first = first or member.member_id
    return first
