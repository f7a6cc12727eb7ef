"""Where replicas should lie: moves after which disks and traffic are spread over the brokers more evenly.

A replica counts by the bytes on its disk, by the bytes a second that it is written, by those that are read of it, which
are most where it leads, and a little by being there. For
each of these a broker has a share, which is 1 where it has its part of what there is: as much as any other, or in
proportion to its capacity. The sum of the squares of all shares, each times the capacity, is smallest where all are 1,
and each step makes it smaller. First disks and traffic become even, and then the number of replicas. A step goes
from a broker that has more than its share, and is the one that evens most for each byte that has to be copied: a move,
or where no move helps, an exchange of two replicas. Partitions keep as many racks as they have.

It ends when no broker has more than `tolerance` above its part, when no step helps any more, or after `most_moves`:
then it is time to look again. What is left is told with the reason.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, Generic

from penstock.leadership.plan import PartitionT, Racks, keeps_racks
from penstock.protocol.value import Value


class Respect(IntEnum):
    DISK = 0
    TRAFFIC = 1
    READS = 2
    COUNT = 3


IMPORTANCE: Final = (1.0, 1.0, 1.0, 0.1)
"""Of each respect."""
FIRST: Final = (Respect.DISK, Respect.TRAFFIC, Respect.READS)
LEAST_COST: Final = 0.1
"""A move costs something even where there is nothing to copy."""
LEAST_GAIN: Final = 1e-9
STUCK: Final = "no move and no exchange of two replicas makes it more even"
FULL: Final = "a plan has no more moves: make another one when these are done"
SAMPLED: Final = 50
"""Replicas of a broker, from the largest to the smallest, that are tried in exchanges."""

Weight = tuple[float, ...]
"""How much a replica adds to the share of a broker of capacity 1, in each respect."""


class Carried(Value):
    """`reads`: the bytes a second that are read of each replica, by its place; of those that it does not name, none."""

    disk_bytes: int
    bytes_per_second: float
    reads: tuple[float, ...] = ()

    def loads(self, place: int) -> tuple[float, ...]:
        """In each respect."""
        return self.disk_bytes, self.bytes_per_second, self.reads[place] if place < len(self.reads) else 0.0, 1


class Excess(Value):
    """A broker that keeps more than the tolerance: `share` is 1 where it has its part."""

    broker: int
    respect: Respect
    share: float
    reason: str


class Spread(Value, Generic[PartitionT]):
    """The replicas of partitions that should move, and what stays uneven."""

    targets: dict[PartitionT, list[int]]
    left: list[Excess]


class _Move(Value, Generic[PartitionT]):
    partition: PartitionT
    giver: int
    taker: int


_Step = tuple[_Move[PartitionT], ...]


def spread(
    replicas: Mapping[PartitionT, Sequence[int]],
    carried: Mapping[PartitionT, Carried],
    racks: Racks,
    *,
    closed: Collection[int] = (),
    fixed: Collection[PartitionT] = (),
    capacities: Mapping[int, float] | None = None,
    tolerance: float = 0.1,
    most_moves: int = 50,
) -> Spread[PartitionT]:
    """`racks` names the brokers in service, of which the `closed` ones get nothing. Partitions with a replica on any
    other broker stay where they are, as do `fixed` ones. A broker that has no capacity in `capacities` has 1.
    """
    capacity = _scaled({node: (capacities or {}).get(node, 1.0) for node in racks})
    every = {one: list(nodes) for one, nodes in sorted(replicas.items())}
    may_move = {one for one, nodes in every.items() if one not in fixed and all(node in racks for node in nodes)}
    shares = _Shares(every, carried, racks, closed, capacity, may_move)
    changed: dict[PartitionT, list[int]] = {}
    is_limited = False
    while step := shares.best_step(1 + tolerance):
        if len(changed.keys() | {move.partition for move in step}) > most_moves:
            is_limited = True
            break
        for move in step:
            changed[move.partition] = shares.move(move)
    return Spread(
        {one: nodes for one, nodes in changed.items() if nodes != list(replicas[one])},
        list(shares.left(1 + tolerance, is_limited=is_limited)),
    )


class _Shares(Generic[PartitionT]):
    def __init__(
        self,
        replicas: dict[PartitionT, list[int]],
        carried: Mapping[PartitionT, Carried],
        racks: Racks,
        closed: Collection[int],
        capacity: Mapping[int, float],
        may_move: Collection[PartitionT],
    ) -> None:
        self._may_move = may_move
        self._closed = closed
        self._capacity = capacity
        self._replicas = replicas
        self._racks = racks
        self._weights = _weights(replicas, carried, racks)
        self._of_broker = {node: [0.0] * len(Respect) for node in racks}
        self._held: dict[int, dict[PartitionT, Weight]] = {node: {} for node in racks}
        """What may move."""
        self._pinned = dict.fromkeys(racks, 0)
        for partition, nodes in replicas.items():
            for place, node in enumerate(nodes):
                if node in racks:
                    self._count(partition, place, node, 1)
                    self._pinned[node] += partition not in may_move

    def move(self, move: _Move[PartitionT]) -> list[int]:
        """The replicas afterwards: the taker stands where the giver stood."""
        place = self._replicas[move.partition].index(move.giver)
        self._count(move.partition, place, move.giver, -1)
        self._count(move.partition, place, move.taker, 1)
        nodes = [move.taker if node == move.giver else node for node in self._replicas[move.partition]]
        self._replicas[move.partition] = nodes
        return nodes

    def best_step(self, most: float) -> _Step[PartitionT] | None:
        """None if no broker has more than `most`, or no step helps."""
        for respects in (FIRST, (Respect.COUNT,)):
            over = [node for node in self._racks if self._excessive(node, respects, most)]
            for steps in (self._moves, self._exchanges):
                for giver in sorted(over, key=lambda node: (-max(self._share(node, it) for it in respects), node)):
                    found = steps(giver, self._excessive(giver, respects, most))
                    best = max(found, key=lambda it: it[0], default=None)
                    if best is not None:
                        return best[1]
        return None

    def left(self, most: float, *, is_limited: bool) -> Iterator[Excess]:
        for node in sorted(self._racks):
            for respect in self._excessive(node, tuple(Respect), most):
                reason = FULL if is_limited else STUCK
                if self._pinned[node]:
                    reason += f"; {self._pinned[node]} of its replicas cannot move now"
                yield Excess(node, respect, self._share(node, respect), reason)

    def _excessive(self, node: int, respects: Sequence[Respect], most: float) -> list[Respect]:
        return [respect for respect in respects if self._share(node, respect) > most]

    def _share(self, node: int, respect: Respect) -> float:
        return self._of_broker[node][respect] / self._capacity[node]

    def _moves(self, giver: int, respects: Sequence[Respect]) -> Iterator[tuple[float, _Step[PartitionT]]]:
        for partition, weight in self._held[giver].items():
            if not any(weight[respect] for respect in respects):
                continue
            for taker in self._racks:
                value = self._value(weight, giver, taker, respects)
                if value > 0 and self._may_take(partition, giver, taker):
                    cost = weight[Respect.DISK] + LEAST_COST
                    yield value / cost, (_Move(partition, giver, taker),)

    def _exchanges(self, giver: int, respects: Sequence[Respect]) -> Iterator[tuple[float, _Step[PartitionT]]]:
        given = self._sample(giver, respects)
        for taker in self._racks:
            for back in self._sample(taker, respects) if taker != giver else ():
                for partition in given:
                    weight, other = self._held[giver][partition], self._held[taker][back]
                    difference = tuple(one - two for one, two in zip(weight, other, strict=True))
                    value = self._value(difference, giver, taker, respects)
                    if value > 0 and self._may_take(partition, giver, taker) and self._may_take(back, taker, giver):
                        cost = weight[Respect.DISK] + other[Respect.DISK] + 2 * LEAST_COST
                        yield value / cost, (_Move(partition, giver, taker), _Move(back, taker, giver))

    def _sample(self, node: int, respects: Sequence[Respect]) -> list[PartitionT]:
        loads = {it: sum(weight[respect] for respect in respects) for it, weight in self._held[node].items()}
        held = sorted((it for it in loads if loads[it]), key=lambda it: -loads[it])
        return held[:: len(held) // SAMPLED + 1]

    def _value(self, weight: Weight, giver: int, taker: int, respects: Sequence[Respect]) -> float:
        """By how much the squares fall in these respects if so much goes over; 0 if they do not fall in all."""
        giving, taking = self._capacity[giver], self._capacity[taker]
        rows = zip(self._of_broker[giver], self._of_broker[taker], weight, strict=True)
        gains = [
            importance * part * ((2 * given - part) / giving - (2 * taken + part) / taking)
            for importance, (given, taken, part) in zip(IMPORTANCE, rows, strict=True)
        ]
        return sum(gains[respect] for respect in respects) if sum(gains) > LEAST_GAIN else 0.0

    def _may_take(self, partition: PartitionT, giver: int, taker: int) -> bool:
        nodes = self._replicas[partition]
        if taker in nodes or taker in self._closed:
            return False
        return keeps_racks(nodes, giver, taker, self._racks)

    def _count(self, partition: PartitionT, place: int, node: int, sign: int) -> None:
        shares, weight = self._of_broker[node], self._weights[partition][place]
        for respect, part in enumerate(weight):
            shares[respect] += sign * part
        if sign < 0:
            del self._held[node][partition]
        elif partition in self._may_move:
            self._held[node][partition] = weight


def _scaled(capacities: dict[int, float]) -> dict[int, float]:
    """With a mean of 1."""
    mean = sum(capacities.values()) / max(len(capacities), 1)
    return {node: capacity / mean for node, capacity in capacities.items()}


def _weights(
    replicas: Mapping[PartitionT, Sequence[int]], carried: Mapping[PartitionT, Carried], racks: Racks
) -> dict[PartitionT, list[Weight]]:
    """Of each replica, by its place. What is on brokers that are out of service counts nowhere."""
    loads = {one: [carried[one].loads(place) for place in range(len(nodes))] for one, nodes in replicas.items()}
    here = [
        load for one, nodes in replicas.items() for node, load in zip(nodes, loads[one], strict=True) if node in racks
    ]
    means = [sum(load[respect] for load in here) / max(len(racks), 1) for respect in Respect]
    return {
        one: [tuple(part / mean if mean else 0.0 for part, mean in zip(load, means, strict=True)) for load in its]
        for one, its in loads.items()
    }
