"""Why a group rebalances: what its coordinator remembers of the rebalance under way, and says of it when it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

ALSO_LENGTH: Final = 8
"""How many further causes a rebalance remembers."""
NAMED: Final = 8


def named(member_ids: Sequence[str]) -> str:
    """A line names a few of very many."""
    more = [f"{len(member_ids) - NAMED:,} more"] if len(member_ids) > NAMED else []
    return ", ".join([*member_ids[:NAMED], *more])


@dataclass(slots=True)
class Rebalance:
    started_ms: int
    cause: str
    """A sentence without a full stop that names the member."""
    from_generation: int
    also: list[str] = field(default_factory=list)
    """What else happened to the members while it was under way."""
    ended_ms: int = -1
    generation: int = -1
    """The generation that it led to; -1 while none has formed, and for good when another rebalance came first."""
    outcome: str = "under way"
    """`under way`, `stable`, `empty`, or `interrupted` by another rebalance."""
    members: int = 0
    removed: list[str] = field(default_factory=list)
    """Members that had not rejoined, or not fetched their assignment, within the rebalance timeout."""
    until_ms: int = -1
    """When those are put out who are waited for; -1 while nobody is."""
    formed_ms: int = -1
    """When all had joined; -1 while they have not, and where another coordinator has seen it."""
    earlier: "Rebalance | None" = None
    """What it interrupts, or what that interrupted: the first since the last generation that was assigned."""

    def interrupts(self, other: "Rebalance") -> None:
        first = self.earlier = other.earlier or other
        if first is not other and len(first.also) < ALSO_LENGTH:
            first.also.append(other.cause)

    @property
    def began_ms(self) -> int:
        return self.started_ms if self.earlier is None else self.earlier.started_ms

    @property
    def causes(self) -> list[str]:
        """All since the last generation that was assigned."""
        earlier = [] if self.earlier is None else self.earlier.causes
        return [*earlier, self.cause, *self.also]

    @property
    def length_ms(self) -> int:
        """-1 while it is under way."""
        return -1 if self.ended_ms < 0 else self.ended_ms - self.started_ms

    def describe(self) -> str:
        """One line: what happened, how long it took, and why. Clients' own words cannot break out of it."""
        if self.outcome == "stable":
            result = f"generation {self.generation} with {self.members} members after {self.length_ms} ms"
        elif self.outcome == "empty":
            result = f"empty after {self.length_ms} ms"
        elif self.ended_ms < 0:
            result = self.outcome
        else:
            result = f"{self.outcome} after {self.length_ms} ms"
        removed = f"; removed as too late: {named(self.removed)}" if self.removed else ""
        line = f"{result}: {'; '.join([self.cause, *self.also])}{removed}"
        return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
