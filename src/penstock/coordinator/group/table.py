"""What the parts of a shard share: its groups and their offsets, and the agenda of what is under way with them."""

from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from penstock.coordinator.group.commits_first import CommitsFirst
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer


class RandomBits(Protocol):
    """Where chance comes from: `random.Random` and its like."""

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        ...


class GroupTable(Agenda):
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, random: RandomBits) -> None:
        super().__init__(settings.write_timeout_ms)
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.commits_first = CommitsFirst(self)
        self._random = random

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
