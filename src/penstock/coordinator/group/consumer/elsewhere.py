"""Targets that are worked out elsewhere, as that takes long, and written some at a time.

Members go on meanwhile with the targets that they have.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.coordinator.effects import Calculation
from penstock.coordinator.group.assigned_group import UNCHECKED, AssignedGroup, some_targets
from penstock.coordinator.group.consumer.kind_table import KindTable
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.machine import Continuation
from penstock.protocol.errors import ErrorCode

SLICE_MS: Final = 1
"""Between some of very many targets and the next ones."""

Calculate = Callable[[], Mapping[str, Any]]
"""The target of each member. Raises KafkaError."""


class Elsewhere:
    """An errand for the epoch of a group, and its `assigning` as long as it is under way."""

    __slots__ = ("_epoch", "_group", "_house", "_instances", "_left", "_wrote")

    def __init__(
        self,
        house: KindTable,
        group: AssignedGroup[Any, Any],
        instances: Mapping[str, str | None],
        wrote: Continuation,
    ) -> None:
        """`instances`: of the members that are to have targets, where they have one; `wrote` follows each write."""
        self._house = house
        self._group = group
        self._epoch: int = group.state.epoch
        self._instances = instances
        self._wrote = wrote
        self._left: deque[tuple[str, str | None, Any]] = deque()
        """A member, its instance, and what it is to have."""

    def send(self, calculate: Calculate) -> None:
        """What the group's state is by now only a write that fails may take back."""
        self._group.assigning = self
        self._house.table.send(Calculation(calculate), self._worked_out)

    def _worked_out(self, targets: Mapping[str, Any] | None, error: ErrorCode, now_ms: int) -> None:
        """Members may have come or gone meanwhile: then the group is at a later epoch, and this is done again. What a
        write that failed has taken back is not what was asked for (`wrote` of the kind's timing).
        """
        group = self._group
        if group.assigning is not self:
            return
        if targets is None or group.is_dead:
            group.assigning = None
            if not group.is_dead:
                line = f"group {group.group_id}: its targets could not be worked out: {error.name}"
                self._house.table.name(line, now_ms)
            return
        self._left.extend((member_id, self._instances.get(member_id), target) for member_id, target in targets.items())
        self._write_some(now_ms)

    def _write_some(self, now_ms: int) -> None:
        """A part of very many targets at a time; the epoch comes with the last. Until then members may take what is
        free of the new ones, which is safe in any order.
        """
        group, table = self._group, self._house.table
        if group.assigning is not self or group.is_dead:
            return
        draft, state = table.draft(), group.state
        some = some_targets(self._left, table.settings.members_at_once, state.members, state.static_ids)
        group.put_targets(draft, state.target_key, group.what_is_there(some))
        if self._left:
            table.start_timer(self._write_some, now_ms + SLICE_MS)
        else:
            group.assigning, group.checked_version = None, UNCHECKED  # there may be more by now than these are of
            draft.put(group.record(group.group_id, AssignmentEpoch(self._epoch, now_ms), state.assignment_key, ONE))
        self._house.write(draft, now_ms, then=self._wrote)
