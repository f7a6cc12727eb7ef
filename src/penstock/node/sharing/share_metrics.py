"""What share partitions say of themselves in numbers, by Kafka's names, once a member has asked for records."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Labels, Metric, Registry
from penstock.node.sharing.progress import UNKNOWN_MS
from penstock.node.sharing.shared import Shared
from penstock.sharing.sessions import ShareSessions
from penstock.sharing.values import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement

ACK_TYPES: Final = {GAP: "Gap", ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
MOST_LOOKS: Final = 100
"""Into logs, while the metrics are read: a few milliseconds."""
OF_PARTITION: Final = ("group", "topic", "partition")


class Counted:
    """What is counted where it happens."""

    def __init__(self) -> None:
        self.acknowledged: Counts[int] = Counts()
        """Records by the type of acknowledgement that holds."""
        self.evictions = 0
        """Sessions that ended with their connection."""
        self.load_time = Durations()

    def holds(self, said: Iterable[Acknowledgement]) -> None:
        for it in said:
            if len(it.types) == 1:
                self.acknowledged[it.types[0]] += it.last - it.first + 1
            else:
                self.acknowledged.update(it.types)


def register_shares(
    registry: Registry,
    counted: Counted,
    sessions: ShareSessions,
    led: Callable[[], Iterable[Shared]],
    now_ms: Callable[[], int],
) -> None:
    """`led` are the share partitions that are led here; `now_ms` is the wall clock."""
    group, session = Group.SHARE_GROUPS, Group.SHARE_SESSIONS
    registry.add(
        Counter(
            group,
            "RecordAcknowledgementsPerSec",
            "Records of which members said something that holds",
            lambda: {(name,): counted.acknowledged[kind] for kind, name in ACK_TYPES.items()},
            labels=("ackType",),
        ),
        Histogram(
            group,
            "PartitionLoadTimeMs",
            "How long it took to read what was written down of a share partition",
            lambda: counted.load_time,
            unit="milliseconds",
        ),
        *_of_partitions(led, now_ms),
        Gauge(session, "ShareSessionsCount", "Share sessions that are open", lambda: len(sessions)),
        Gauge(session, "SharePartitionsCount", "Partitions in all of them", lambda: sessions.partition_count),
        Counter(
            session,
            "ShareSessionEvictionsPerSec",
            "Sessions that ended with their connection",
            lambda: counted.evictions,
        ),
    )


def _of_partitions(led: Callable[[], Iterable[Shared]], now_ms: Callable[[], int]) -> Iterator[Metric[Any]]:
    def waited() -> Iterator[tuple[Labels, int]]:
        looks = MOST_LOOKS
        for shared in led():
            offset = shared.machine.start_offset
            may_look = looks > 0
            looks -= not shared.oldest.is_known(offset)
            came_ms = shared.oldest.came_ms(offset, may_look=may_look) if shared.backlog else UNKNOWN_MS
            waited_ms = max(now_ms() - came_ms, 0) if came_ms != UNKNOWN_MS else 0
            yield (shared.key.group_id, shared.partition.topic, shared.key.partition), waited_ms

    def of_each(read: Callable[[Shared], int]) -> Callable[[], Iterator[tuple[Labels, int]]]:
        def each() -> Iterator[tuple[Labels, int]]:
            for shared in led():
                yield (shared.key.group_id, shared.partition.topic, shared.key.partition), read(shared)

        return each

    gauge = partial(Gauge, Group.SHARE_PARTITIONS, labels=OF_PARTITION)
    counter = partial(Counter, Group.SHARE_PARTITIONS, labels=OF_PARTITION)
    yield gauge(
        "InFlightMessageCount",
        "Records between beginning and end, finished ones among others included",
        of_each(lambda shared: shared.machine.in_flight),
    )
    yield gauge("InFlightBatchCount", "Batches of them", of_each(lambda shared: len(shared.machine.flight)))
    yield counter(
        "AcquisitionLockTimeoutPerSec", "Records whose lock ran out", of_each(lambda shared: shared.locks_run_out)
    )
    yield gauge("BacklogCount", "Records that the group has not finished with", of_each(lambda shared: shared.backlog))
    yield gauge("OldestWaitingMs", "How long the first of them has waited", waited, unit="milliseconds")
    yield counter(
        "RecordDeliveriesPerSec",
        "Records that were given to members",
        of_each(lambda shared: shared.deliveries.all.total),
    )
    yield counter(
        "RecordRedeliveriesPerSec",
        "Those of them that had been delivered before",
        of_each(lambda shared: shared.deliveries.again.total),
    )
