"""A group of many members, all in one process: how long until each has its share?"""

import argparse
import time

from confluent_kafka import Consumer, TopicPartition

from bench.child import Child, answer

LIMIT_S = 90.0
HEARTBEAT_MS = 250
"""Members learn of a rebalance by their heartbeats; at the default of 3 s nothing else would be seen."""


def group_times_s(address: str, topic: str, group: str, members: int) -> tuple[float, float]:
    """(from the first join to all stable, from one member's leaving to all stable)."""
    joined, left = Child("bench.versus.members", address, topic, group, members).result()
    return joined, left


class Members:
    """The consumers and what each is assigned."""

    def __init__(self, address: str, topic: str, group: str, count: int) -> None:
        self.assigned: dict[int, set[int]] = {}
        self.count = count
        self.consumers: dict[int, Consumer] = {}
        self._settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
        }
        self._topic = topic

    def connect(self) -> None:
        """Create the clients; each has found the broker when this returns."""
        for number in range(self.count):
            self.consumers[number] = Consumer(self._settings)
            self.consumers[number].list_topics(self._topic, 30)

    def join(self) -> None:
        """All subscribe."""
        for number, consumer in self.consumers.items():
            self._subscribe(number, consumer)

    def await_stable(self, members: int) -> float:
        """When (perf_counter) all partitions are spread over all members."""
        until = time.perf_counter() + LIMIT_S
        while time.perf_counter() < until:
            for consumer in self.consumers.values():
                consumer.poll(0)
            shares = [share for share in self.assigned.values() if share]
            taken = set().union(*shares)
            if len(shares) == members and len(taken) == self.count and sum(map(len, shares)) == self.count:
                return time.perf_counter()
            time.sleep(0.001)
        raise RuntimeError(f"not stable after {LIMIT_S:g} s: {len(self.assigned)} members have a share")

    def leave(self) -> None:
        """The first member leaves."""
        self.consumers.pop(0).close()
        self.assigned.pop(0, None)

    def close(self) -> None:
        """The rest, without ceremony: the process ends."""
        for consumer in self.consumers.values():
            consumer.unsubscribe()

    def _subscribe(self, number: int, consumer: Consumer) -> None:
        def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.assigned[number] = {one.partition for one in partitions}

        def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.assigned[number] = set()

        consumer.subscribe([self._topic], on_assign=on_assign, on_revoke=on_revoke)


def main() -> None:
    """Form the group and let one member leave. The topic has as many partitions as the group has members."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("members", type=int)
    words = parser.parse_args()
    members = Members(words.address, words.topic, words.group, words.members)
    members.connect()
    begun = time.perf_counter()
    members.join()
    joined = members.await_stable(words.members) - begun
    begun = time.perf_counter()
    members.leave()
    left = members.await_stable(words.members - 1) - begun
    members.close()
    answer((joined, left))


if __name__ == "__main__":
    main()
