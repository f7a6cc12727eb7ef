"""What a handler sees of the node: its configuration, the committed metadata, its partitions and its coordinators."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any

from penstock.node.partitions import PartitionTable


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True, kw_only=True)
class Broker:
    """The broker of this process. Handlers read it and call its parts; it decides nothing itself."""

    config: Any
    """BrokerConfig: typed attributes, named as Kafka's keys in snake_case."""
    node_id: int
    cluster_id: str
    image: Any
    """ClusterImage: the committed metadata."""
    partitions: PartitionTable
    controller: Any = None
    """ControllerDriver."""
    groups: Any = None
    """GroupDriver."""
    random: Random = field(default_factory=SystemRandom)
    broker_epoch: int = -1

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""
        return wall_clock_ms()
