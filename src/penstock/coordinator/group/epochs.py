"""Groups whose coordinator assigns: what their records have in common, whatever it is that members get.

A group goes from one epoch to the next; targets are worked out for an epoch, and each member comes to its own.
"""

from typing import Any, ClassVar, Final, Generic, TypeVar

from penstock.coordinator.group.parts import ONE, Parts
from penstock.protocol.value import Value

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
"""Epochs by which a member says what it wants; the last is for static ones, and stands in their record till they come
back.
"""

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"


class AssignmentEpoch(Value):
    epoch: int
    timestamp_ms: int
    """When the assignment was worked out; 0 if the next one is not to wait."""

    def wait_ms(self, interval_ms: int, now_ms: int) -> int:
        """For how long the next one has to wait.

        Not at all behind one of the future, which is of a clock that was set back, or of a coordinator before this one.
        """
        return max(self.timestamp_ms + interval_ms - now_ms, 0) if 0 < self.timestamp_ms <= now_ms else 0


NO_ASSIGNMENT: Final = AssignmentEpoch(0, 0)

EpochT = TypeVar("EpochT")
MemberT = TypeVar("MemberT")
TargetT = TypeVar("TargetT")
CurrentT = TypeVar("CurrentT")


class EpochView(Parts, Generic[EpochT, MemberT, TargetT, CurrentT]):
    """What the records say, and no more. Each kind has types of its own for the parts."""

    __slots__ = ()

    group_key: ClassVar[int]
    assignment_key: ClassVar[int]
    member_key: ClassVar[int]
    target_key: ClassVar[int]
    current_key: ClassVar[int]

    first_epoch: ClassVar[Any]
    """Of a group without a record: as Kafka counts, it is ahead of its first assignment from the beginning."""
    newcomer: ClassVar[Any]
    """What a member has that is in no record yet."""
    no_target: ClassVar[Any]

    @property
    def group(self) -> EpochT:
        found: EpochT = self._parts[self.group_key].get(ONE, self.first_epoch)
        return found

    @property
    def epoch(self) -> int:
        found: int = self._parts[self.group_key].get(ONE, self.first_epoch).epoch
        return found

    @property
    def assignment(self) -> AssignmentEpoch:
        found: AssignmentEpoch = self._parts[self.assignment_key].get(ONE, NO_ASSIGNMENT)
        return found

    @property
    def members(self) -> dict[str, MemberT]:
        """In the order in which they joined. Read only, as the next ones."""
        return self._parts[self.member_key]

    @property
    def targets(self) -> dict[str, TargetT]:
        return self._parts[self.target_key]

    @property
    def currents(self) -> dict[str, CurrentT]:
        return self._parts[self.current_key]

    def current(self, member_id: str) -> CurrentT:
        found: CurrentT = self._parts[self.current_key].get(member_id, self.newcomer)
        return found

    def target(self, member_id: str) -> TargetT:
        found: TargetT = self._parts[self.target_key].get(member_id, self.no_target)
        return found

    @property
    def state(self) -> str:
        """Follows from the records, as of a kind whose members come to their targets step by step."""
        if not self.members:
            return EMPTY
        epoch = self.assignment.epoch
        if self.epoch > epoch:
            return ASSIGNING
        currents: dict[str, Any] = self._parts[self.current_key]
        is_there = all(currents.get(one, self.newcomer).is_reconciled_to(epoch) for one in self.members)
        return STABLE if is_there else RECONCILING
