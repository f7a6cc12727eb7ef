"""A leader that hands over has asked for its successor: it appends nothing before it knows that it leads on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.leadership.transfer import State

if TYPE_CHECKING:
    from penstock.node.partitions.hand_over import PartitionHandOver

HAS_ASKED: Final = (State.ASKED, State.DECIDED)


class GivenUp:
    """Follows the hand-overs of all hosts; `violated` is told of a log that grows where none should."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._ends: dict[str, dict[PartitionHandOver, int]] = {}

    def look(self, host: str, hand_overs: Sequence[PartitionHandOver]) -> None:
        """A log that its disk has thrown out is looked at once the node has read it again."""
        before = self._ends.pop(host, None) if self._ends else None
        if not hand_overs:
            return
        asked = [one for one in hand_overs if one.machine.state in HAS_ASKED and one.partition.log.is_loaded]
        ends = {one: one.partition.log.log_end_offset for one in asked}
        if not ends:
            return
        self._ends[host] = ends
        for one, end in ends.items():
            if before is not None and before.get(one, end) != end:
                to = one.machine.successor
                self._violated(
                    f"{host} has given {one.partition} up to broker {to}, and appends to it at {before[one]}"
                )
