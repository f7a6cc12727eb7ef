"""Which broker would answer as a leader: at each moment of the true time one broker for each partition, or none.

A broker that the controller has not fenced may not have heard yet that another one leads: that is a hand-over, and over
when the metadata have come. One that is fenced by the newest metadata answers no client, however late it hears of that.
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker

Key = tuple[UUID, int]


class Host(Protocol):
    name: str

    @property
    def serving(self) -> Broker | None: ...

    def would_answer(self, partition: Partition) -> bool:
        """As the partition's leader, by the broker's own clock."""


class LeaderClaims:
    """Compares what brokers believe; `violated` is told where two would answer, `newest` has what was committed."""

    def __init__(self, violated: Callable[[str], None], newest: Callable[[], ClusterImage | None]) -> None:
        self._violated = violated
        self._newest = newest
        self._hosts: Sequence[Host] = ()
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._led: dict[str, dict[Key, Partition]] = {}
        self._disputed: list[Key] = []
        self._told: dict[tuple[Key, str], int] = {}

    def watch(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts

    @property
    def watches(self) -> bool:
        """Whether there is anything to look at after each event of a host."""
        return bool(self._hosts)

    def look(self, host: Host) -> None:
        broker = host.serving
        seen = (-1, -1, -1) if broker is None else (broker.broker_epoch, broker.image.offset, broker.lease.renewed)
        if self._seen.get(host.name) != seen:
            self._seen[host.name] = seen
            self.look_anew(host)
        for key in self._disputed:
            self._check(key)

    def look_anew(self, host: Host) -> None:
        """Which partitions with several replicas the broker leads, as far as it knows."""
        broker = host.serving
        self._led[host.name] = {
            (partition.topic_id, partition.index): partition
            for partition in (() if broker is None else broker.partitions)
            if partition.leader is not None and partition.leader.followers
        }
        counts: dict[Key, int] = {}
        for led in self._led.values():
            for key in led:
                counts[key] = counts.get(key, 0) + 1
        self._disputed = [key for key, count in counts.items() if count > 1]

    def _check(self, key: Key) -> None:
        claims = [
            (partition.leader_epoch, host, partition)
            for host in self._hosts
            if (partition := self._led.get(host.name, {}).get(key)) is not None and self._claims(host, partition)
        ]
        if len(claims) < 2:
            return
        claims.sort(key=lambda claim: claim[0])
        newest = self._newest()
        for epoch, host, partition in claims[:-1]:
            broker = host.serving
            known = None if newest is None or broker is None else newest.brokers.get(broker.node_id)
            if known is not None and not known.fenced:
                continue
            if self._told.setdefault((key, host.name), epoch) == epoch:
                self._told[key, host.name] = -1
                later, other, _ = claims[-1]
                self._violated(
                    f"{host.name} is fenced, and answers as the leader of {partition} in epoch {epoch}; "
                    f"{other.name} does so in epoch {later}"
                )

    def _claims(self, host: Host, partition: Partition) -> bool:
        broker = host.serving
        is_here = broker is not None and broker.partitions.get(partition.topic_id, partition.index) is partition
        return is_here and partition.leader is not None and host.would_answer(partition)
