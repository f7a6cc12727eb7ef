"""How a member comes to what its coordinator has assigned: it gives up first, commits, and then says so (KIP-848).

As in `rebalances.py`, everything that the application notices happens in `go_on`, for which `poll` waits. Reading what
it keeps never stops.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.consumer.reconciling import Place
from penstock.client.consumer.subscription import Subscription
from penstock.client.values import TopicPartition

MOST_STEPS: Final = 100
"""Assignments that one poll comes to; the next poll goes on."""


class Reconciliations:
    """`commit` commits the positions if that is automatic."""

    is_joining = False
    """There is no moment at which members wait for each other."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: AssignedMembership,
        subscription: Subscription,
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._subscription = subscription
        self._commit = commit
        self.listener = RebalanceListener()

    @property
    def is_due(self) -> bool:
        return self._group.must_join or self._group.lost or self._group.has_target

    async def go_on(self, topics: Collection[str]) -> None:
        """`topics`, those that are there, are of no use: the coordinator knows them better."""
        if self._group.must_join:
            self._group.take_part(self._subscription.topics, self._subscription.expression)
        for _ in range(MOST_STEPS):
            if self._group.lost:
                await self._lose()
                self._group.loss_is_known()
            target = self._group.target()
            partitions = None if target is None else await self._named(target)
            if target is None or partitions is None:
                return
            await self._come_to(partitions)
            self._group.come_to(target)

    async def stop(self) -> None:
        """Nothing goes on between two polls."""

    async def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit first, so that the next owner repeats nothing; then tell the listener."""
        await self._commit()
        try:
            await self.listener.on_revoked(partitions)
        finally:
            self._subscription.set_partitions(self._subscription.partitions.keys() - set(partitions))

    async def _come_to(self, partitions: Collection[TopicPartition]) -> None:
        held = list(self._subscription.partitions)
        revoked = [partition for partition in held if partition not in partitions]
        if revoked:
            await self.give_up(revoked)
        if self._group.lost:
            return  # meanwhile: what was new is somebody else's
        self._subscription.set_partitions(partitions)
        await self.listener.on_assigned(sorted(set(partitions) - set(held)))

    async def _lose(self) -> None:
        """Other members may own them already: nothing can be committed."""
        held = list(self._subscription.partitions)
        try:
            if held:
                await self.listener.on_lost(held)
        finally:
            self._subscription.set_partitions(())

    async def _named(self, target: frozenset[Place]) -> frozenset[TopicPartition] | None:
        """None while the metadata do not know some of the topics."""
        for is_new in (False, True):
            if is_new:
                topics = None if self._subscription.expression else sorted(self._subscription.topics)
                await self._cluster.refresh(topics)
            names = {topic.topic_id: name for name, topic in self._cluster.metadata.topics.items()}
            if all(topic_id in names for topic_id, _ in target):
                return frozenset(TopicPartition(names[topic_id], index) for topic_id, index in target)
        return None
