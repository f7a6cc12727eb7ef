"""What must hold of every shard, whatever is asked of it: of its timers, and of what it remembers of members."""

from collections.abc import Callable
from typing import Any, Final

from penstock.coordinator.group.assigned_group import AssignedGroup, RevokingGroup
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.story import ConsumerStory
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.story import StreamsStory
from penstock.coordinator.timers import Timer

GIVING_UP: Final = {story.kind: story.giving_up for story in (ConsumerStory, StreamsStory)}


def looks_ahead(shard: Any, now_ms: Callable[[], int]) -> None:
    """No timer of this shard is set for the past: it would fire in the same turn, and what is to be done some at a time
    would be done at once. 0 is "as soon as may be".
    """
    timers = shard._table.timers
    settle = timers.set

    def checked(timer: Timer, deadline_ms: int) -> None:
        assert deadline_ms == 0 or deadline_ms >= now_ms(), f"{timer.fire} is set for {now_ms() - deadline_ms} ms ago"
        settle(timer, deadline_ms)

    timers.set = checked


def check_members(shard: Any) -> None:
    """Of a group that lives each member has a session, and nobody else has anything. Who is to give something up, and
    nobody else, is waited for; classic members are so by calls.
    """
    for group in shard._table.groups.values():
        if not isinstance(group, AssignedGroup) or group.is_dead:
            continue
        members = group.state.members
        assert group.sessions.keys() == members.keys()
        assert all(one.deadline_ms is not None for one in group.sessions.values())
        assert group.late.keys() <= members.keys()
        if isinstance(group, RevokingGroup):
            state = GIVING_UP[group.kind]
            speak_new = [name for name, one in members.items() if getattr(one, "classic", None) is None]
            currents = {name: group.state.current(name) for name in speak_new}
            giving_up = {name for name, one in currents.items() if one.state == state and one.epoch >= 0}
            assert group.rebalances.keys() == giving_up
        if isinstance(group, StreamsGroup):
            assert group.offsets.keys() <= members.keys()
            assert group.is_delayed <= bool(members)
        if isinstance(group, ConsumerGroup):
            assert all(members[name].classic is not None for name in group.calls)
