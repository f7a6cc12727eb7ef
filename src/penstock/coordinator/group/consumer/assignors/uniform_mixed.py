"""Uniform where members read different topics: as even as these let it be, and then as little moved as can be.

What a member no longer reads is taken from it; what nobody has goes to those readers of its topic that have least; then
topics are gone through, and partitions go from the readers that have most to those that have least, until nothing moves
or `MOST_ROUNDS` are over. Where all readers of a topic read the same, one round is enough.
"""

import heapq
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Spec, Targets, sorted_topics

MOST_ROUNDS: Final = 16


class _Balance:
    def __init__(self, spec: Spec) -> None:
        self.members = list(spec.readers)
        self.size = [0] * len(self.members)
        """The number of partitions of each member."""
        self.readers: dict[UUID, list[int]] = {topic: [] for topic in spec.partitions}
        self.owners: dict[UUID, list[int]] = {topic: [-1] * count for topic, count in spec.partitions.items()}
        for number, reader in enumerate(spec.readers.values()):
            for topic in reader.topics:
                self.readers[topic].append(number)
            for topic, partitions in reader.target.items():
                if topic in reader.topics:
                    for one in partitions:
                        if one < len(self.owners[topic]) and self.owners[topic][one] < 0:
                            self.own(topic, one, number)
        self.topics = sorted(
            (topic for topic, readers in self.readers.items() if readers),
            key=lambda topic: (-len(self.owners[topic]) / len(self.readers[topic]), len(self.readers[topic]), topic),
        )
        """Those of which each reader has most to read come first."""

    def own(self, topic: UUID, partition: int, number: int) -> None:
        before = self.owners[topic][partition]
        if before >= 0:
            self.size[before] -= 1
        self.owners[topic][partition] = number
        self.size[number] += 1

    def give_out(self, topic: UUID) -> None:
        """What nobody has."""
        by_size = [(self.size[number], number) for number in self.readers[topic]]
        heapq.heapify(by_size)
        for one, owner in enumerate(self.owners[topic]):
            if owner < 0:
                number = by_size[0][1]
                self.own(topic, one, number)
                heapq.heapreplace(by_size, (self.size[number], number))

    def even_out(self, topic: UUID) -> bool:
        """Whether something has moved."""
        owned: dict[int, list[int]] = {}
        for one, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(one)
        least = [(self.size[number], number) for number in self.readers[topic]]
        most = [(-self.size[number], number) for number in owned]
        heapq.heapify(least)
        heapq.heapify(most)
        has_moved = False
        while most:
            giver, taker = most[0][1], least[0][1]
            if -most[0][0] != self.size[giver]:
                heapq.heapreplace(most, (-self.size[giver], giver))
            elif least[0][0] != self.size[taker]:
                heapq.heapreplace(least, (self.size[taker], taker))
            elif not owned[giver]:
                heapq.heappop(most)
            elif self.size[giver] - self.size[taker] <= 1:
                break
            else:
                self.own(topic, owned[giver].pop(), taker)
                has_moved = True
        return has_moved


def assign(spec: Spec) -> Targets:
    balance = _Balance(spec)
    for topic in balance.topics:
        balance.give_out(topic)
    shared = [topic for topic in balance.topics if len(balance.readers[topic]) > 1]
    for _ in range(MOST_ROUNDS):
        have_moved = [balance.even_out(topic) for topic in shared]
        if not any(have_moved):
            break
    owned: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in balance.members}
    for topic, owners in balance.owners.items():
        for one, owner in enumerate(owners):
            if owner >= 0:
                owned[balance.members[owner]].setdefault(topic, set()).add(one)
    return {member_id: sorted_topics(topics) for member_id, topics in owned.items()}
