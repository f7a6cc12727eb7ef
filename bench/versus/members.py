"""A group of many members, all in one process: how long until each has its share?"""

import time

from confluent_kafka import Consumer, TopicPartition

LIMIT_S = 90.0
HEARTBEAT_MS = 250
"""Members learn of a rebalance by their heartbeats; at the default of 3 s nothing else would be seen."""


class Members:
    """The consumers and what each is assigned. The topic has as many partitions as the group has members."""

    def __init__(self, address: str, topic: str, group: str, count: int) -> None:
        """Create the clients; each has found the broker when this returns."""
        self._assigned: dict[int, set[int]] = {}
        self._count = count
        self._topic = topic
        settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
        self._consumers = {
            number: Consumer({**settings, "heartbeat.interval.ms": HEARTBEAT_MS}) for number in range(count)
        }
        for consumer in self._consumers.values():
            consumer.list_topics(topic, 30)

    def join(self) -> None:
        """All subscribe."""
        for number, consumer in self._consumers.items():
            self._subscribe(number, consumer)

    def await_stable(self, members: int) -> float:
        """When (perf_counter) all partitions are spread over all members."""
        until = time.perf_counter() + LIMIT_S
        while time.perf_counter() < until:
            for consumer in self._consumers.values():
                consumer.poll(0)
            shares = [share for share in self._assigned.values() if share]
            taken = set().union(*shares)
            if len(shares) == members and len(taken) == self._count and sum(map(len, shares)) == self._count:
                return time.perf_counter()
            time.sleep(0.001)
        raise RuntimeError(f"not stable after {LIMIT_S:g} s: {len(self._assigned)} members have a share")

    def leave(self) -> None:
        """The first member leaves."""
        self._consumers.pop(0).close()
        self._assigned.pop(0, None)

    def close(self) -> None:
        """The rest, without ceremony: the process ends."""
        for consumer in self._consumers.values():
            consumer.unsubscribe()

    def _subscribe(self, number: int, consumer: Consumer) -> None:
        def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned[number] = {one.partition for one in partitions}

        def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned[number] = set()

        consumer.subscribe([self._topic], on_assign=on_assign, on_revoke=on_revoke)


def group_times_s(address: str, topic: str, group: str, count: int) -> tuple[float, float]:
    """(from the first join to all stable, from one member's leaving to all stable)."""
    members = Members(address, topic, group, count)
    begun = time.perf_counter()
    members.join()
    joined = members.await_stable(count) - begun
    begun = time.perf_counter()
    members.leave()
    left = members.await_stable(count - 1) - begun
    members.close()
    return joined, left
