"""Who should lead each partition: computed beforehand for all of them, as evenly as their replicas allow.

A partition can be led by any of its replicas whose broker is registered, also by one that is down at the moment: a plan
is for a cluster that is whole. It weighs one, or by the bytes that it carries. Out of all plans that is taken which

1. leads what is pinned where it is pinned, and all else in the first of the `ordered_racks` that has a replica of it,
2. makes the sum of the squares of the brokers' loads small, that is: loads them evenly,
3. and, where that leaves a choice, loads the racks evenly.

It begins with what is preferred now and goes on while anything gets better, so that as little changes as possible. One
step gives one partition to another broker, or several in a chain: broker 1 gives one to 2, which gives another to 3.
While each partition weighs one, no plan is more even than what comes out; by bytes the most even plan would take too
long to find, and no single move makes this one better.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from penstock.protocol.value import Value

Partition = tuple[str, int]

PartitionT = TypeVar("PartitionT", bound=Partition)

Racks = Mapping[int, str | None]
"""Broker to rack; only registered brokers."""

IDLE_SHARE: Final = 10
"""A partition weighs a tenth of the mean at least: idle ones are to be spread as well."""
MAX_STEPS: Final = 50
"""Steps for each partition: more than any plan has needed."""


class _Handover(Value, Generic[PartitionT]):
    partition: PartitionT
    giver: int
    taker: int


def ideal_leaders(
    replicas: Mapping[PartitionT, Sequence[int]],
    racks: Racks,
    *,
    weights: Mapping[PartitionT, int] | None = None,
    pinned: Mapping[PartitionT, int] | None = None,
    ordered_racks: Sequence[str] = (),
) -> dict[PartitionT, int]:
    """`replicas` names the leader that is preferred now first.

    A pin to a broker that has no replica is passed over, and a partition without any registered broker stays. One
    without a replica in any of `ordered_racks` may be led by any of its replicas.
    """
    ranks = ranks_of(racks, ordered_racks)
    ideal = {partition: nodes[0] for partition, nodes in replicas.items()}
    loads: _Loads[PartitionT] = _Loads(racks)
    for partition, nodes in sorted(replicas.items()):
        able = [node for node in nodes if node in racks]
        if not able:
            continue
        pin = (pinned or {}).get(partition)
        if pin in able:
            able = [pin]
        else:
            first = min(ranks[node] for node in able)
            able = [node for node in able if ranks[node] == first]
        ideal[partition] = able[0]
        loads.put(partition, 1 if weights is None else weights[partition], able)
    for _ in range(MAX_STEPS * len(replicas)):
        step = loads.better()
        if step is None:
            break
        for handover in step:
            loads.move(handover)
            ideal[handover.partition] = handover.taker
    return ideal


def weights_by_rate(rates: Mapping[PartitionT, float]) -> dict[PartitionT, int]:
    """`rates` are in bytes a second."""
    least = sum(rates.values()) / len(rates) / IDLE_SHARE if rates else 0.0
    return {partition: max(round(rate + least), 1) for partition, rate in rates.items()}


def ranks_of(racks: Racks, ordered_racks: Sequence[str]) -> dict[int, int]:
    """Of brokers by the place of their racks in the order; those of other racks come last, all alike."""
    places = {rack: place for place, rack in enumerate(ordered_racks)}
    return {node: len(places) if rack is None else places.get(rack, len(places)) for node, rack in racks.items()}


def keeps_racks(nodes: Sequence[int], giver: int, taker: int, racks: Racks) -> bool:
    """Whether replicas on these brokers are in as many racks as before when one goes from the giver to the taker."""
    after = {racks[taker if node == giver else node] for node in nodes}
    return len(after) >= len({racks[node] for node in nodes})


def in_order(replicas: Sequence[int], leader: int, ranks: Mapping[int, int] | None = None) -> list[int]:
    """The others stay in their order, those of a lower rank before those of a higher one."""
    rank_of = ranks or {}
    others = (node for node in replicas if node != leader)
    return [leader, *sorted(others, key=lambda node: rank_of.get(node, len(rank_of)))]


class _Loads(Generic[PartitionT]):
    """What each broker leads, and what it could give to which other one."""

    def __init__(self, racks: Racks) -> None:
        self._racks = racks
        self._of_broker = dict.fromkeys(racks, 0)
        self._of_rack = {rack: 0 for rack in racks.values() if rack is not None}
        self._able: dict[PartitionT, tuple[int, list[int]]] = {}
        self._could_give: dict[int, dict[int, list[tuple[int, PartitionT]]]] = {node: {} for node in racks}
        """By giver and taker, the lightest partition first."""

    def put(self, partition: PartitionT, weight: int, able: list[int]) -> None:
        """The first of the able brokers leads it."""
        self._able[partition] = weight, able
        self._take(partition, able[0])

    def move(self, handover: _Handover[PartitionT]) -> None:
        weight, able = self._able[handover.partition]
        for other in able:
            if other != handover.giver:
                given = self._could_give[handover.giver][other]
                del given[bisect_left(given, (weight, handover.partition))]
        self._count(handover.giver, -weight)
        self._take(handover.partition, handover.taker)

    def better(self) -> list[_Handover[PartitionT]] | None:
        """None if nothing does; the broker that has most gives first."""
        for giver in sorted(self._of_broker, key=lambda node: (-self._of_broker[node], node)):
            step = self._best(self._singles(giver)) or self._best(self._chains(giver))
            if step is not None:
                return step
        return None

    def _take(self, partition: PartitionT, taker: int) -> None:
        weight, able = self._able[partition]
        for other in able:
            if other != taker:
                insort(self._could_give[taker].setdefault(other, []), (weight, partition))
        self._count(taker, weight)

    def _count(self, node: int, weight: int) -> None:
        self._of_broker[node] += weight
        rack = self._racks[node]
        if rack is not None:
            self._of_rack[rack] += weight

    def _best(self, steps: Iterable[list[_Handover[PartitionT]]]) -> list[_Handover[PartitionT]] | None:
        costs = [(cost, count, step) for count, step in enumerate(steps) if (cost := self._cost(step)) < (0, 0)]
        return min(costs, key=lambda it: it[:2])[2] if costs else None

    def _singles(self, giver: int) -> Iterator[list[_Handover[PartitionT]]]:
        """What best halves the difference to another broker, and what exchanges their loads: racks may gain by it."""
        for taker, given in self._could_give[giver].items():
            more = self._of_broker[giver] - self._of_broker[taker]
            half = bisect_left(given, (more / 2,))
            for place in {half - 1: None, half: None, bisect_left(given, (more,)): None}:
                if 0 <= place < len(given) and given[place][0] <= more:
                    yield [_Handover(given[place][1], giver, taker)]

    def _chains(self, giver: int) -> Iterator[list[_Handover[PartitionT]]]:
        """The shortest chain to each broker that has less, the lightest partition at each link."""
        reached: dict[int, list[_Handover[PartitionT]]] = {giver: []}
        waiting = deque([giver])
        while waiting:
            node = waiting.popleft()
            for taker, given in self._could_give[node].items():
                if given and taker not in reached:
                    reached[taker] = [*reached[node], _Handover(given[0][1], node, taker)]
                    waiting.append(taker)
                    if len(reached[taker]) > 1 and self._of_broker[taker] < self._of_broker[giver]:
                        yield reached[taker]

    def _cost(self, step: Sequence[_Handover[PartitionT]]) -> tuple[int, int]:
        """By how much the squares of the brokers' loads grow, and those of the racks'."""
        brokers: dict[int, int] = {}
        for handover in step:
            weight = self._able[handover.partition][0]
            brokers[handover.giver] = brokers.get(handover.giver, 0) - weight
            brokers[handover.taker] = brokers.get(handover.taker, 0) + weight
        of_brokers = of_racks = 0
        racks: dict[str, int] = {}
        for node, more in brokers.items():
            of_brokers += more * (2 * self._of_broker[node] + more)
            rack = self._racks[node]
            if rack is not None:
                racks[rack] = racks.get(rack, 0) + more
        for rack, more in racks.items():
            of_racks += more * (2 * self._of_rack[rack] + more)
        return of_brokers, of_racks
