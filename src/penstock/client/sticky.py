"""The sticky assignment (KIP-54): first as even as can be, then as few partitions moved as can be.

The steps:

1. Believe what members say they own, where the topic still exists and they still subscribe to it. If two claim one
   partition, the later generation is right; if both are of one generation, neither is.
2. All members subscribe to the same topics (the ordinary case): each member has a quota, the even share rounded down,
   and as many members as there are partitions over have one more. Owners keep their first partitions up to the quota,
   and the rest is dealt to members below it, in the order of their ids.
3. Otherwise: the partitions without an owner go one by one, those with the fewest possible owners first, to the
   subscriber that holds the fewest; then a partition moves from a member to a subscriber that holds at least two
   fewer, until there is no such pair. Each move makes the sum of squares smaller, so this ends.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from penstock.client.values import TopicPartition

Assignment = dict[str, list[TopicPartition]]
Claims = Mapping[str, tuple[int, Sequence[TopicPartition]]]


def assign_sticky(
    subscriptions: Mapping[str, Sequence[str]], claims: Claims, partition_counts: Mapping[str, int]
) -> Assignment:
    """Assign every partition of every subscribed topic.

    `subscriptions` names each member's topics (those that exist, sorted), `claims` what each says it owned and in
    which generation.
    """
    subscribed = sorted({topic for topics in subscriptions.values() for topic in topics})
    partitions = [TopicPartition(topic, number) for topic in subscribed for number in range(partition_counts[topic])]
    owned = _believed(subscriptions, claims, partition_counts)
    if all(list(topics) == subscribed for topics in subscriptions.values()):
        return _assign_by_quota(owned, partitions)
    return _assign_by_balance(subscriptions, owned, partitions)


def _believed(
    subscriptions: Mapping[str, Sequence[str]], claims: Claims, partition_counts: Mapping[str, int]
) -> Assignment:
    """Each member's claims, without what no longer exists, is no longer wanted, or is rightly another's."""
    latest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, (generation, partitions) in claims.items():
        for partition in dict.fromkeys(partitions):
            if partition.topic not in subscriptions[member] or partition.partition >= partition_counts[partition.topic]:
                continue
            known_generation, _ = latest.get(partition, (generation - 1, None))
            if generation > known_generation:
                latest[partition] = (generation, member)
            elif generation == known_generation:
                latest[partition] = (generation, None)
    owned: Assignment = {member: [] for member in subscriptions}
    for partition, (_, owner) in sorted(latest.items()):
        if owner is not None:
            owned[owner].append(partition)
    return owned


def _assign_by_quota(owned: Assignment, partitions: Sequence[TopicPartition]) -> Assignment:
    """The case in which all members subscribe to the same topics."""
    share, members_with_one_more = divmod(len(partitions), len(owned)) if owned else (0, 0)
    assignment: Assignment = {}
    for member, mine in owned.items():
        keeps = share + 1 if members_with_one_more and len(mine) > share else share
        members_with_one_more -= keeps > share
        assignment[member] = mine[:keeps]
    kept = {partition for mine in assignment.values() for partition in mine}
    free = deque(partition for partition in partitions if partition not in kept)
    lacking = deque(sorted(member for member, mine in assignment.items() if len(mine) < share))
    while lacking:
        member = lacking.popleft()
        assignment[member].append(free.popleft())
        if len(assignment[member]) < share:
            lacking.append(member)
    at_share = sorted(member for member, mine in assignment.items() if len(mine) == share)
    for member, partition in zip(at_share, free, strict=False):
        assignment[member].append(partition)
    return assignment


def _assign_by_balance(
    subscriptions: Mapping[str, Sequence[str]], owned: Assignment, partitions: Sequence[TopicPartition]
) -> Assignment:
    """The case in which members subscribe to different topics."""
    subscribers: dict[str, list[str]] = {}
    for member, topics in subscriptions.items():
        for topic in topics:
            subscribers.setdefault(topic, []).append(member)
    assignment = {member: list(mine) for member, mine in owned.items()}
    taken = {partition for mine in owned.values() for partition in mine}
    free = [partition for partition in partitions if partition not in taken]
    for partition in sorted(free, key=lambda p: (len(subscribers[p.topic]), p)):
        fewest = min(subscribers[partition.topic], key=lambda member: (len(assignment[member]), member))
        assignment[fewest].append(partition)
    while _move_one(assignment, subscribers):
        pass
    return _with_moves_undone(assignment, owned)


def _move_one(assignment: Assignment, subscribers: Mapping[str, Sequence[str]]) -> bool:
    """Move one partition from a member to one that holds at least two fewer; False if no such pair is left.

    The pair with the widest gap goes first, and the member's newest partition moves: those it owned before come first
    in its list.
    """
    for member in sorted(assignment, key=lambda m: (-len(assignment[m]), m)):
        for partition in reversed(assignment[member]):
            fewest = min(subscribers[partition.topic], key=lambda m: (len(assignment[m]), m))
            if len(assignment[member]) - len(assignment[fewest]) >= 2:
                assignment[member].remove(partition)
                assignment[fewest].append(partition)
                return True
    return False


def _with_moves_undone(assignment: Assignment, owned: Assignment) -> Assignment:
    """Swap partitions of one topic back to their old owners, where each of the two members has one to give."""
    old_owner = {partition: member for member, mine in owned.items() for partition in mine}
    for member, mine in assignment.items():
        for partition in list(mine):
            owner = old_owner.get(partition, member)
            if owner == member:
                continue
            spare = next(
                (p for p in assignment[owner] if p.topic == partition.topic and old_owner.get(p) != owner), None
            )
            if spare is not None:
                mine.remove(partition)
                assignment[owner].remove(spare)
                mine.append(spare)
                assignment[owner].append(partition)
    return {member: sorted(mine) for member, mine in assignment.items()}
