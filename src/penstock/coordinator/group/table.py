"""What the parts of a shard share: its groups and their offsets, the kinds of groups that there are, and the agenda."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.commits_first import CommitsFirst
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer
from penstock.protocol.value import Value


class RandomBits(Protocol):
    """Where chance comes from: `random.Random` and its like."""

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        ...


class GroupKind(Value):
    """What is to be known of a kind of groups besides what each of its groups answers (`Group`)."""

    name: str
    """`Group.kind` of its groups."""
    persisted: type
    """The value of its records."""
    create: Callable[[str, int, GroupSettings], Group]
    """A group that has only a name, at a time."""
    restore: Callable[["GroupTable", str, Any, int], None]
    """Put a group into the table that is what a record says: that is how it goes on with a new coordinator."""
    unsettled: Callable[[Any, int], KeyValue | None]
    """What the next coordinator is to know of a group besides its last record, as another one; None if nothing."""


class GroupTable(Agenda):
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, random: RandomBits, kinds: Sequence[GroupKind]) -> None:
        """Groups that do nothing but commit offsets are of the first kind."""
        super().__init__(settings.write_timeout_ms)
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.commits_first = CommitsFirst(self)
        self._random = random
        self._kinds = kinds

    def create_group(self, group_id: str, now_ms: int) -> None:
        """Begin a group for somebody who only commits offsets."""
        self.groups[group_id] = self._kinds[0].create(group_id, now_ms, self.settings)

    def restore_group(self, group_id: str, value: object, now_ms: int) -> None:
        """Make a group what the value of its record says."""
        kind = next(kind for kind in self._kinds if isinstance(value, kind.persisted))
        kind.restore(self, group_id, value, now_ms)

    def unsettled(self, group: Group, now_ms: int) -> KeyValue | None:
        """What another coordinator is to know of a group besides its last record."""
        return next(kind for kind in self._kinds if kind.name == group.kind).unsettled(group, now_ms)

    def drop_group(self, group: Group, now_ms: int) -> None:
        """Forget a group, dead from now on."""
        group.kill(now_ms)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def new_member_id(self, prefix: str) -> str:
        """A member id as Kafka makes them: client id or instance id, a dash, a random UUID (version 4)."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def start_timer(self, fire: Callable[..., None], deadline_ms: int, *arguments: object) -> Timer:
        """A new timer that calls `fire(*arguments, now_ms)`."""
        timer = Timer(partial(fire, *arguments))
        self.timers.set(timer, deadline_ms)
        return timer
