"""Where replicas should lie: moves after which disks and traffic are spread over the brokers more evenly.

A replica counts by the bytes on its disk, by the bytes a second that it is written, and a little by being there. For
each of these a broker has a share, which is 1 where it has the mean; the sum of the squares of all shares is to be
small. One replica moves after the other, from a broker that has more than its share, where it gains most for each byte
that has to be copied; partitions keep as many racks as they have. It ends when no broker has more than `tolerance`
above the mean, when nothing gains any more, or after `most_moves`: then it is time to look again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic

from penstock.leadership.plan import PartitionT, Racks
from penstock.protocol.value import Value

IMPORTANCE: Final = (1.0, 1.0, 0.1)
"""Of disk, of traffic, and of the number of replicas."""
LEAST_COST: Final = 0.1
"""A move costs something even where there is nothing to copy."""
LEAST_GAIN: Final = 1e-9


class Carried(Value):
    disk_bytes: int
    bytes_per_second: float


class _Step(Value, Generic[PartitionT]):
    partition: PartitionT
    giver: int
    taker: int


def spread(
    replicas: Mapping[PartitionT, Sequence[int]],
    carried: Mapping[PartitionT, Carried],
    racks: Racks,
    *,
    tolerance: float = 0.1,
    most_moves: int = 50,
) -> dict[PartitionT, list[int]]:
    """`racks` names the brokers in service; partitions with a replica on any other broker stay where they are."""
    shares = _Shares(
        {one: list(nodes) for one, nodes in sorted(replicas.items()) if all(node in racks for node in nodes)},
        carried,
        racks,
    )
    changed: dict[PartitionT, list[int]] = {}
    for _ in range(most_moves):
        step = shares.best_step(1 + tolerance)
        if step is None:
            break
        changed[step.partition] = shares.move(step)
    return {one: nodes for one, nodes in changed.items() if nodes != list(replicas[one])}


class _Shares(Generic[PartitionT]):
    def __init__(
        self, replicas: dict[PartitionT, list[int]], carried: Mapping[PartitionT, Carried], racks: Racks
    ) -> None:
        self._replicas = replicas
        self._racks = racks
        self._weights = _weights(replicas, carried, len(racks))
        self._of_broker = {node: [0.0, 0.0, 0.0] for node in racks}
        self._held: dict[int, dict[PartitionT, None]] = {node: {} for node in racks}
        for partition, nodes in replicas.items():
            for node in nodes:
                self._count(partition, node, 1)

    def move(self, step: _Step[PartitionT]) -> list[int]:
        """The replicas afterwards: the taker stands where the giver stood."""
        self._count(step.partition, step.giver, -1)
        self._count(step.partition, step.taker, 1)
        nodes = [step.taker if node == step.giver else node for node in self._replicas[step.partition]]
        self._replicas[step.partition] = nodes
        return nodes

    def best_step(self, most: float) -> _Step[PartitionT] | None:
        """What gains most for its cost; None if no broker has more than `most`."""
        for giver in sorted(self._racks, key=lambda node: (-max(self._of_broker[node]), node)):
            if max(self._of_broker[giver]) <= most:
                return None
            best = max(self._steps(giver), key=lambda it: it[0], default=None)
            if best is not None:
                return best[1]
        return None

    def _steps(self, giver: int) -> Iterator[tuple[float, _Step[PartitionT]]]:
        for partition in self._held[giver]:
            cost = self._weights[partition][0] + LEAST_COST
            for taker in self._racks:
                gain = self._gain(partition, giver, taker)
                if gain > LEAST_GAIN and self._may_take(partition, giver, taker):
                    yield gain / cost, _Step(partition, giver, taker)

    def _gain(self, partition: PartitionT, giver: int, taker: int) -> float:
        """By how much the squares fall."""
        rows = zip(IMPORTANCE, self._of_broker[giver], self._of_broker[taker], self._weights[partition], strict=True)
        return sum(2 * importance * weight * (given - taken - weight) for importance, given, taken, weight in rows)

    def _may_take(self, partition: PartitionT, giver: int, taker: int) -> bool:
        nodes = self._replicas[partition]
        if taker in nodes:
            return False
        after = {self._racks[taker if node == giver else node] for node in nodes}
        return len(after) >= len({self._racks[node] for node in nodes})

    def _count(self, partition: PartitionT, node: int, sign: int) -> None:
        shares = self._of_broker[node]
        for respect, weight in enumerate(self._weights[partition]):
            shares[respect] += sign * weight
        if sign > 0:
            self._held[node][partition] = None
        else:
            del self._held[node][partition]


def _weights(
    replicas: Mapping[PartitionT, Sequence[int]], carried: Mapping[PartitionT, Carried], brokers: int
) -> dict[PartitionT, tuple[float, float, float]]:
    """How much a replica adds to the share of its broker."""
    disk = sum(carried[one].disk_bytes * len(nodes) for one, nodes in replicas.items()) / max(brokers, 1)
    traffic = sum(carried[one].bytes_per_second * len(nodes) for one, nodes in replicas.items()) / max(brokers, 1)
    count = sum(map(len, replicas.values())) / max(brokers, 1)
    return {
        one: (
            carried[one].disk_bytes / disk if disk else 0.0,
            carried[one].bytes_per_second / traffic if traffic else 0.0,
            1 / count,
        )
        for one in replicas
    }
