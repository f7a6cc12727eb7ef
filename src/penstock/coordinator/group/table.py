"""What the parts of a shard share: groups and offsets, timers, what is being written, and the effects so far."""

from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from penstock.coordinator.group.effects import Append, Effect, KeyValue, Reply, Token
from penstock.coordinator.group.group import ClassicGroup, GroupState
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.group.records import GroupRecord, encode_group_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.timers import Timer, Timers
from penstock.protocol.errors import ErrorCode

Continuation = Callable[[ErrorCode, int], None]
"""What to do when a write is committed (NONE) or has failed; the second argument is `now_ms`."""


class RandomBits(Protocol):
    """Where chance comes from: `random.Random` and its like."""

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        ...


class GroupTable:
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, random: RandomBits) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.timers = Timers()
        self.effects: list[Effect] = []
        self._random = random
        self._writes: dict[int, Continuation] = {}
        self._next_write_id = 0

    def create_group(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Add a new, empty group."""
        assert group_id not in self.groups
        group = self.groups[group_id] = ClassicGroup(group_id, now_ms, self.settings.history_length)
        return group

    def drop_group(self, group: ClassicGroup, now_ms: int) -> None:
        """Forget a group, dead from now on."""
        self.kill_group(group, now_ms)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def kill_group(self, group: ClassicGroup, now_ms: int) -> None:
        """Make a group Dead: nobody can join it, and nothing happens in it any more."""
        if group.state is not GroupState.DEAD:
            group.transition_to(GroupState.DEAD, now_ms)
        for timer in (group.join_timer, group.sync_timer, *group.pending.values()):
            if timer is not None:
                timer.deadline_ms = None
        group.join_timer = group.sync_timer = None
        group.pending.clear()

    def new_member_id(self, prefix: str) -> str:
        """A member id as Kafka makes them: client id or instance id, a dash, a random UUID (version 4)."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def reply(self, token: Token | None, response: object) -> None:
        """Answer a request, if one waits."""
        if token is not None:
            self.effects.append(Reply(token, response))

    def append(self, records: list[KeyValue], then: Continuation) -> None:
        """Ask for a write; `then` runs when it is committed or has failed."""
        write_id = self._next_write_id
        self._next_write_id += 1
        self._writes[write_id] = then
        self.effects.append(Append(write_id, records))

    def append_group(self, group: ClassicGroup, assignments: dict[str, bytes] | None, then: Continuation) -> None:
        """Ask for a write of the group as it is now, with these assignments if they are given."""
        self.append([encode_group_record(GroupRecord(group.group_id, group.to_value(assignments)))], then)

    def written(self, write_id: int, error: ErrorCode, now_ms: int) -> None:
        """A write is committed or has failed."""
        self._writes.pop(write_id)(error, now_ms)

    def fail_writes(self, error: ErrorCode, now_ms: int) -> None:
        """None of the writes that are under way will be reported on: they count as failed."""
        while self._writes:
            self._writes.pop(next(iter(self._writes)))(error, now_ms)

    def start_timer(self, fire: Callable[..., None], deadline_ms: int, *arguments: object) -> Timer:
        """A new timer that calls `fire(*arguments, now_ms)`."""
        timer = Timer(partial(fire, *arguments))
        self.timers.set(timer, deadline_ms)
        return timer

    def take_effects(self) -> list[Effect]:
        """What has come up since the last time, in order."""
        effects, self.effects = self.effects, []
        return effects
