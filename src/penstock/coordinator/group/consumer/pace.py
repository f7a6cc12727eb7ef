"""How soon a member is to send its next heartbeat.

A member hears of its target, and of what others have given up, in the answers to its heartbeats alone, and clients take
the interval from each answer. Changes come together: where one member has joined, others do. So after an assignment
members are to come soon, and then less and less often, until it is as often as the group's interval says; in a large
group less often, too. A member that is to give something up says so by itself when it has.
"""

from typing import Final

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.table import ConsumerTable

SOONEST_MS: Final = 100
EACH_MEMBER_MS: Final = 1
"""So members send together at most 1,000 heartbeats a second, or what they send at the usual interval."""
PART_OF_AGE: Final = 2
"""Of an assignment: a member comes 2 s after it, then 1 s later, then 1.5 s later, and so on."""


def next_heartbeat_ms(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> int:
    state, usual_ms = group.state, house.heartbeat_interval_ms(group.group_id)
    assignment = state.assignment
    if assignment.epoch < state.epoch:
        wait_ms = assignment.wait_ms(house.assignment_interval_ms(group.group_id), now_ms)
    else:  # one of the future is of another clock, and may be hours away
        wait_ms = abs(now_ms - assignment.timestamp_ms) // PART_OF_AGE
    if wait_ms >= usual_ms:
        return usual_ms
    return min(usual_ms, max(SOONEST_MS, EACH_MEMBER_MS * len(state.members), wait_ms))


def stays(house: ConsumerTable, group: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
    """Whether it will be the same with any later heartbeat, as long as the group is as it is."""
    is_usual = interval_ms == house.heartbeat_interval_ms(group.group_id)
    return is_usual and group.state.assignment.timestamp_ms <= now_ms
