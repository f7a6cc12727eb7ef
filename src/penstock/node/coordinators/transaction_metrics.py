"""What a coordinator of transactions says of itself in numbers, once a transactional id has been looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.node.coordinators.hosted import Hosted
from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Gauge, Group, Histogram, Registry


def register_transactions(
    registry: Registry, serving: Callable[[], Sequence[Hosted[TransactionShard]]], load_time: Durations
) -> None:
    """`serving` are the partitions that this node coordinates."""

    def sum_of(index: int) -> Callable[[], int]:
        return lambda: sum(hosted.machine.counts()[index] for hosted in serving())

    gauge = partial(Gauge, Group.TRANSACTION_COORDINATOR)
    registry.add(
        Histogram(
            Group.TRANSACTION_COORDINATOR,
            "partition-load-time",
            "How long it took to read a partition of the coordinator's topic",
            lambda: load_time,
            unit="milliseconds",
        ),
        gauge("id-count", "Transactional ids that this node coordinates", sum_of(0)),
        gauge("open-count", "Those with an open transaction", sum_of(1)),
        gauge("prepared-count", "Those whose transaction is decided, while its markers are written", sum_of(2)),
    )
