"""The disks of one broker: how full each is, and which replicas should lie on another one of them.

Each should have its part, in proportion to its size, of the bytes and of what is written a second: the same plan as
that for brokers, with disks in their place.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Generic

from penstock.leadership.plan import PartitionT
from penstock.leadership.spread import Carried, Spread, spread
from penstock.protocol.value import Value


class Disk(Value, Generic[PartitionT]):
    """One log directory; the sizes are those of its file system, -1 if the broker cannot tell."""

    path: str
    total_bytes: int
    usable_bytes: int
    held: Mapping[PartitionT, int]
    """The replicas in it, by size."""
    is_open: bool = True
    """It takes new replicas."""

    def excess(self, most: float) -> float:
        """How much more lies in it than this share of it; below 0 it has room."""
        return self.total_bytes - self.usable_bytes - most * self.total_bytes

    @property
    def is_known(self) -> bool:
        return self.total_bytes > 0 and self.usable_bytes >= 0


def spread_over_disks(
    disks: Sequence[Disk[PartitionT]],
    rates: Mapping[PartitionT, float],
    *,
    fixed: Collection[PartitionT] = (),
    tolerance: float = 0.1,
    most_moves: int = 50,
) -> Spread[PartitionT]:
    """The plan names disks by their place among `disks`; those of unknown size neither give nor take."""
    known = {place: None for place, disk in enumerate(disks) if disk.is_known}
    sizes = {one: size for place in known for one, size in disks[place].held.items()}
    return spread(
        {one: [place] for place in known for one in disks[place].held},
        {one: Carried(size, rates.get(one, 0.0)) for one, size in sizes.items()},
        known,
        closed=[place for place in known if not disks[place].is_open],
        fixed=fixed,
        capacities={place: disks[place].total_bytes for place in known},
        tolerance=tolerance,
        most_moves=most_moves,
    )
