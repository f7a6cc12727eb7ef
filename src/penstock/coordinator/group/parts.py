"""Groups that are what their records add up to: each record is a part of the group, found by its key and a name.

Such a group is kept twice: as it was decided, and as far as that is committed, which is what clients are shown.
"""

from typing import Any, ClassVar, Final, Self

from penstock.coordinator.group.image import DecidedAhead
from penstock.coordinator.group.records import KindRecord

ONE: Final = ""
"""The name of what a group has one of."""


class Parts:
    """What the records say, and no more."""

    __slots__ = ("_parts",)

    keys: ClassVar[frozenset[int]]

    def __init__(self) -> None:
        self._parts: dict[int, dict[str, Any]] = {key: {} for key in sorted(self.keys)}

    def put(self, key: int, name: str, value: Any) -> Any:
        """Returns what was there before. A value of None takes it away."""
        part = self._parts[key]
        if value is None:
            return part.pop(name, None)
        before = part.get(name)
        part[name] = value
        return before

    def names_of(self, key: int) -> list[str]:
        """What the group has records for under this key."""
        return list(self._parts[key])

    @property
    def is_empty(self) -> bool:
        return not any(self._parts.values())


class DecidedParts(Parts, DecidedAhead):
    """A group as it was decided, `committed` as far as that is in the log for good."""

    __slots__ = ("ahead", "changes", "committed")

    def __init__(self, committed: Any) -> None:
        """`committed` are `Parts` of the same kind."""
        super().__init__()
        self.committed = committed
        self.ahead = 0
        """Records that were decided, and are not committed yet."""
        self.changes = 0
        """Records that were decided, or taken back: while there are no more of them, all is as it was."""

    @property
    def is_gone(self) -> bool:
        return not self.ahead and self.is_empty

    def all_is_committed(self) -> None:
        self.ahead = 0
        for key, part in self._parts.items():
            self.committed._parts[key] = dict(part)


class PartRecord(KindRecord):
    """`name` is that of a part of which a group has many; else `ONE`."""

    key: int
    name: str = ONE
    takes_back: bool = False
    """Puts what was there before one that failed."""

    keys = frozenset[int]()

    @staticmethod
    def decoded(key: int, key_data: bytes, value: bytes | None) -> tuple[str, str, Any]:
        """The group, the name, and what the value says: None for a tombstone. DecodeError if that cannot be read."""
        raise NotImplementedError

    @staticmethod
    def new_state() -> DecidedParts:
        """Of a group that has no record yet."""
        raise NotImplementedError

    @classmethod
    def decode(cls, key: int, key_data: bytes, value: bytes | None) -> Self:
        """For tests and diagnosis. DecodeError as `decoded`."""
        group_id, name, found = cls.decoded(key, key_data, value)
        return cls(group_id, found, key, name)

    @classmethod
    def load(cls, groups: dict[str, Any], key: int, key_data: bytes, value: bytes | None) -> None:
        """As `apply_to` of such a record that is read, without making it: very many are read. What is left counts when
        `all_is_committed`. DecodeError as `decoded`.
        """
        group_id, name, found = cls.decoded(key, key_data, value)
        state: DecidedParts | None = groups.get(group_id)
        if state is None:
            if found is None:
                return
            state = groups[group_id] = cls.new_state()
        state.put(key, name, found)

    def apply_to(self, groups: dict[str, Any]) -> Any:
        """A tombstone for a group that is not there takes nothing away."""
        state: DecidedParts | None = groups.get(self.group_id)
        if state is None:
            if self.value is None:
                return None
            state = groups[self.group_id] = self.new_state()
        before = state.put(self.key, self.name, self.value)
        state.ahead += -1 if self.takes_back else 1
        state.changes += 1
        if state.is_gone:
            del groups[self.group_id]
        return before

    def undoing(self, before: Any) -> "PartRecord":
        return self.replace(value=before, takes_back=True)

    def count_in(self, groups: dict[str, Any]) -> None:
        state: DecidedParts | None = groups.get(self.group_id)
        if state is not None:
            state.committed.put(self.key, self.name, self.value)
            state.ahead -= 1
            if state.is_gone:
                del groups[self.group_id]
