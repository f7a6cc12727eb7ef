"""How long a group stands still when one of ten members joins, restarts or leaves.

A process runs ten members (librdkafka, a thread each), and a producer that gives each partition a record every few
milliseconds. After each event there are two figures: the longest time in which no member was given any record, and the
longest time in which one partition's records reached no member. An event is over when each partition has been read
again by a member of the new group.
"""

import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from confluent_kafka import Consumer

from bench.child import Background, Child
from bench.load import Stream
from bench.topics import create_topic
from penstock.testing.quorum_view import wait_until

MEMBERS: Final = 10
PARTITIONS: Final = 20
RATE: Final = 2_000
"""Records a second: one for each partition every ten milliseconds."""
LIMIT_S: Final = 60.0
SETTLED_S: Final = 1.0
"""An event is over when no partition has changed hands for this long."""
SESSION_MS: Final = 6_000
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "static": {"partition.assignment.strategy": "range", "group.instance.id": "member-{}"},
}
EVENTS: Final = ("joins", "restarts", "leaves")


class Standstill(NamedTuple):
    """Seconds without a record: for the whole group, and for the partition that waited longest."""

    group_s: float
    partition_s: float


def standstills(address: str, group: str, kind: str) -> dict[str, Standstill]:
    """The cost of each event for a group of this kind; in a process of its own, on a topic of its own."""
    create_topic(address, group, PARTITIONS)
    return Child(_standstills, address, group, kind).result()


def longest_pause_s(moments: list[float], begun: float, ended: float) -> float:
    """Between two points, without one of these moments."""
    within = [begun, *(moment for moment in sorted(moments) if begun < moment < ended), ended]
    return max(later - earlier for earlier, later in pairwise(within))


class Deliveries:
    """When and by which member records of each partition were taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self.reader: list[object] = [None] * PARTITIONS
        self.changed_at = 0.0

    def take(self, partition: int, member: object) -> None:
        now = time.perf_counter()
        with self._lock:
            self._moments[partition].append(now)
            if self.reader[partition] is not member:
                self.reader[partition] = member
                self.changed_at = now

    def standstill(self, begun: float) -> Standstill:
        with self._lock:
            copies = [list(moments) for moments in self._moments]
        ended = min(moments[-1] for moments in copies)
        everything = [moment for moments in copies for moment in moments]
        return Standstill(
            longest_pause_s(everything, begun, ended), max(longest_pause_s(moments, begun, ended) for moments in copies)
        )


class Member(Background):
    def __init__(self, settings: Mapping[str, str | int], topic: str, deliveries: Deliveries) -> None:
        super().__init__()
        self._consumer = Consumer(dict(settings))
        self._consumer.subscribe([topic])
        self._deliveries = deliveries
        self.begin()

    def run(self) -> None:
        while not self.is_over.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._deliveries.take(message.partition() or 0, self)
        self._consumer.close()


class Group:
    """Nine members, and a tenth that comes and goes."""

    def __init__(self, address: str, group: str, kind: str) -> None:
        self._settings: dict[str, str | int] = {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "latest",
            "heartbeat.interval.ms": 250,
            "session.timeout.ms": SESSION_MS,
            "fetch.wait.max.ms": 10,
            **KINDS[kind],
        }
        self._topic = group
        self.deliveries = Deliveries()
        self.members = [self._member(number) for number in range(MEMBERS - 1)]

    def _member(self, number: int) -> Member:
        settings = {k: v.format(number) if isinstance(v, str) else v for k, v in self._settings.items()}
        return Member(settings, self._topic, self.deliveries)

    def await_settled(self, members: int) -> None:
        """Until so many members read all partitions, and none has changed hands for a while."""

        def are() -> bool | None:
            readers = set(self.deliveries.reader)
            shared = None not in readers and readers <= set(self.members) and len(readers) == members
            return (shared and time.perf_counter() - self.deliveries.changed_at > SETTLED_S) or None

        wait_until(are, LIMIT_S, f"{members} members that share {PARTITIONS} partitions")

    def join(self) -> None:
        self.members.append(self._member(MEMBERS - 1))

    def restart(self) -> None:
        """A static member is expected back."""
        self.leave()
        self.join()

    def leave(self) -> None:
        self.members.pop().end()


def _standstills(address: str, topic: str, kind: str) -> dict[str, Standstill]:
    found: dict[str, Standstill] = {}
    with Stream(address, topic, PARTITIONS, rate=RATE, linger_ms=0, acks=1, enable_idempotence=False):
        group = Group(address, topic, kind)
        group.await_settled(MEMBERS - 1)
        acts: dict[str, tuple[Callable[[], None], int]] = {
            "joins": (group.join, MEMBERS),
            "restarts": (group.restart, MEMBERS),
            "leaves": (group.leave, MEMBERS - 1),
        }
        for event, (act, members) in acts.items():
            begun = time.perf_counter()
            act()
            group.await_settled(members)
            found[event] = group.deliveries.standstill(begun)
        for member in group.members:
            member.end()
    return found
