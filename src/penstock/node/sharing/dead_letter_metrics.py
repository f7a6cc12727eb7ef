"""What is told of dead letters in numbers: by Kafka's names, and with ours where deliveries pause because of them."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from penstock.node.metrics.registry import Counter, Gauge, Group, Labels, Registry
from penstock.node.sharing.dead_letters import LettersCounted
from penstock.node.sharing.shared import Shared
from penstock.sharing.breaker import State

OF_GROUP: Final = ("group",)
OF_PARTITION: Final = ("group", "topic", "partition")


def register_dead_letters(registry: Registry, counted: LettersCounted, led: Callable[[], Iterable[Shared]]) -> None:
    """`led` are the share partitions that are led here."""

    def of_each_group(counts: Counts[str]) -> Callable[[], dict[Labels, int]]:
        return lambda: {(group_id,): count for group_id, count in counts.items()}

    def paused() -> Iterator[tuple[Labels, int]]:
        for shared in led():
            if shared.machine.settings.has_dead_letters:
                labels = shared.key.group_id, shared.partition.topic, shared.key.partition
                yield labels, int(shared.machine.breaker.state is not State.CLOSED)

    registry.add(
        Counter(
            Group.SHARE_GROUPS,
            "DeadLetterQueueRecordCount",
            "Dead letters that were written",
            of_each_group(counted.records),
            labels=OF_GROUP,
        ),
        Counter(
            Group.SHARE_GROUPS,
            "DeadLetterQueueTotalProduceRequestsPerSec",
            "Requests that were to write dead letters",
            of_each_group(counted.requests),
            labels=OF_GROUP,
        ),
        Counter(
            Group.SHARE_GROUPS,
            "DeadLetterQueueFailedProduceRequestsPerSec",
            "Times that records were given up without a dead letter",
            of_each_group(counted.failed),
            labels=OF_GROUP,
        ),
        Gauge(
            Group.SHARE_PARTITIONS,
            "DeliveriesPaused",
            "Whether deliveries pause, as too many records became dead letters (share.deadletter.max.rate)",
            paused,
            labels=OF_PARTITION,
        ),
    )
