"""Where the replicas of new partitions go: evenly over the brokers, and each in another rack where there are enough.

The racks stand in a ring, and so do the brokers within each. A partition takes its leader from the first rack and one
replica from each rack in turn; the next partition starts one rack further, and a rack that led starts one broker
further. So over as many partitions as there are brokers, each broker leads once, if the racks are alike. Then the rings
are shuffled, so that the same brokers do not follow each other for ever. A fenced broker may follow, but leads only
when it comes back. The start is drawn.
"""

from collections.abc import Iterable
from typing import TypeVar

from penstock.controller.decision import Chance
from penstock.metadata.image import BrokerImage
from penstock.protocol.errors import ErrorCode, KafkaError

ItemT = TypeVar("ItemT")


class _Rack:
    """`turn` is where its rings start for the next partition."""

    def __init__(self) -> None:
        self.unfenced: list[int] = []
        self.fenced: list[int] = []
        self.turn = 0

    def line(self) -> list[int]:
        """Brokers in the order in which they take replicas now."""
        return _rotated(self.unfenced, self.turn) + _rotated(self.fenced, self.turn)


def place(brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, chance: Chance) -> list[list[int]]:
    """The preferred leader comes first. Brokers that take no new replicas are left out (KIP-1066). Raises KafkaError
    INVALID_REPLICATION_FACTOR if brokers do not suffice.
    """
    registered = list(brokers)
    racks = _racks(broker for broker in registered if broker.takes_replicas)
    known = sum(len(rack.line()) for rack in racks)
    unfenced = sum(len(rack.unfenced) for rack in racks)
    if replication_factor > known:
        message = f"{replication_factor} replicas need as many brokers, but there are {known}"
        if known < len(registered):
            message += f", as {len(registered) - known} take no new replicas (cordoned.log.dirs)"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if not unfenced:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced, so none could lead")
    for rack in racks:
        rack.turn = chance.randrange(len(rack.unfenced) or 1)
    first = chance.randrange(len(racks))
    assignments = []
    for count in range(partitions):
        if count and count % unfenced == 0 and unfenced > 1:
            _shuffle(racks, chance)
        assignments.append(_place_one(_rotated(racks, first + count), replication_factor))
    return assignments


def _place_one(racks: list[_Rack], replication_factor: int) -> list[int]:
    leading = next(index for index, rack in enumerate(racks) if rack.unfenced)
    racks = [racks[leading], *racks[:leading], *racks[leading + 1 :]]
    lines = [rack.line() for rack in racks]
    racks[0].turn += 1  # and not as it follows: or else leading and following would fall in step and some never lead
    replicas: list[int] = []
    row = 0
    while len(replicas) < replication_factor:
        replicas += [line[row] for line in lines if row < len(line)]
        row += 1
    return replicas[:replication_factor]


def _racks(brokers: Iterable[BrokerImage]) -> list[_Rack]:
    racks: dict[str, _Rack] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.node_id)):
        rack = racks.setdefault(broker.rack or "", _Rack())
        (rack.unfenced if broker.active else rack.fenced).append(broker.node_id)
    return list(racks.values())


def _shuffle(racks: list[_Rack], chance: Chance) -> None:
    chance.shuffle(racks)
    for rack in racks:
        chance.shuffle(rack.unfenced)
        chance.shuffle(rack.fenced)


def _rotated(items: list[ItemT], turn: int) -> list[ItemT]:
    start = turn % len(items) if items else 0
    return items[start:] + items[:start]
