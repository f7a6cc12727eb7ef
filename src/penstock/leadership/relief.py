"""Which replicas should leave disks that are nearly full: just enough of them, to brokers that have room.

From a disk that is fuller than it may be goes the smallest replica that is enough, or the largest one as long as none
is. So no replica of a plan could stay. It goes to the broker with the most room that may have it: one that takes new
replicas, is in service, has none of the partition and leaves it in as many racks as before. In which of its directories
a broker puts a replica is its own choice, so it has as much room as the fullest of those that are open.

The fullest disk comes first. What finds no room is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic

from penstock.leadership.disks import Disk
from penstock.leadership.plan import PartitionT, Racks, keeps_racks
from penstock.protocol.value import Value


class Overfull(Value):
    """A disk that keeps more than it may, as no replica in it finds room elsewhere."""

    broker: int
    path: str
    excess_bytes: int


class Relief(Value, Generic[PartitionT]):
    targets: dict[PartitionT, list[int]]
    left: list[Overfull]


def relieve(
    replicas: Mapping[PartitionT, Sequence[int]],
    disks: Mapping[int, Sequence[Disk[PartitionT]]],
    racks: Racks,
    *,
    most: float,
) -> Relief[PartitionT]:
    """`racks` names the brokers in service; partitions with a replica on any other stay where they are. `most` is the
    share of a disk that may be used.
    """
    moves = _Moves(replicas, disks, racks, most)
    full = [(disk.excess(most), node, disk) for node in racks for disk in disks.get(node, ()) if disk.is_known]
    left = []
    for excess, node, disk in sorted(full, key=lambda it: (-it[0] / it[2].total_bytes, it[1], it[2].path)):
        still = excess
        while still > 0:
            moved = next(moves.steps(disk, node, still), None)
            if moved is None:
                left.append(Overfull(node, disk.path, round(still)))
                break
            partition, taker = moved
            moves.move(partition, node, taker, disk.held[partition])
            still -= disk.held[partition]
    return Relief(dict(sorted(moves.changed.items())), left)


class _Moves(Generic[PartitionT]):
    def __init__(
        self,
        replicas: Mapping[PartitionT, Sequence[int]],
        disks: Mapping[int, Sequence[Disk[PartitionT]]],
        racks: Racks,
        most: float,
    ) -> None:
        self.changed: dict[PartitionT, list[int]] = {}
        self._replicas = replicas
        self._racks = racks
        self._room: dict[int, float] = {}
        for node in racks:
            open_ones = [disk for disk in disks.get(node, ()) if disk.is_open]
            if open_ones and all(disk.is_known for disk in open_ones):
                self._room[node] = -max(disk.excess(most) for disk in open_ones)

    def steps(self, disk: Disk[PartitionT], giver: int, excess: float) -> Iterator[tuple[PartitionT, int]]:
        """Partitions that may leave the disk, each with its taker, the best first."""
        here = {one: size for one, size in disk.held.items() if size > 0 and giver in self._nodes(one)}
        for one in sorted(here, key=lambda it: (here[it] < excess, abs(here[it] - excess), it)):
            takers = [node for node in self._room if self._may_take(one, giver, node, here[one])]
            if takers:
                yield one, max(takers, key=lambda node: (self._room[node], -node))

    def move(self, partition: PartitionT, giver: int, taker: int, size: int) -> None:
        self._room[taker] -= size
        self.changed[partition] = [taker if node == giver else node for node in self._nodes(partition)]

    def _nodes(self, partition: PartitionT) -> Sequence[int]:
        return self.changed.get(partition) or self._replicas.get(partition, ())

    def _may_take(self, partition: PartitionT, giver: int, taker: int, size: int) -> bool:
        nodes = self._nodes(partition)
        if taker in nodes or size > self._room[taker] or any(node not in self._racks for node in nodes):
            return False
        return keeps_racks(nodes, giver, taker, self._racks)
