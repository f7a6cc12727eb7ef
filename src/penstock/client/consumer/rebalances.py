"""How a member of a group gives up partitions and takes others when its group rebalances.

| | eager | cooperative (KIP-429) |
| --- | --- | --- |
| before it joins | gives up all | gives up what it no longer subscribes to |
| while it joins | reads nothing | reads on |
| when it has joined | takes what it is given | gives up what it is no longer given, takes what is new |
| and then | is done | joins again if it gave up anything, so that others get it |

Everything that the application notices (commits of its positions, the listener's calls) happens in `go_on`, for which
`poll` waits: a position then says what the application is done with. Only joining itself may go on between two polls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.consumer.subscription import Subscription
from penstock.client.values import TopicPartition


class Rebalances:
    """`commit` commits the positions if that is automatic; `on_news` is told when joining is over."""

    def __init__(
        self,
        group: GroupMembership,
        subscription: Subscription,
        commit: Callable[[], Awaitable[None]],
        on_news: Callable[[], None],
    ) -> None:
        self._group = group
        self._subscription = subscription
        self._commit = commit
        self._on_news = on_news
        self._joining: asyncio.Task[list[TopicPartition]] | None = None
        self.listener = RebalanceListener()

    @property
    def is_joining(self) -> bool:
        return self._joining is not None

    @property
    def is_due(self) -> bool:
        return self._group.must_join if self._joining is None else self._joining.done()

    async def go_on(self, topics: Collection[str]) -> None:
        """Join, and settle what came of it; the cooperative member returns while joining is under way."""
        while self.is_due:
            if self._joining is None:
                await self._prepare(topics)
                self._joining = asyncio.create_task(self._group.join(topics), name="join group")
                self._joining.add_done_callback(lambda _: self._on_news())
            if not self._group.is_cooperative:
                await asyncio.wait([self._joining])
            if self._joining.done():
                joining, self._joining = self._joining, None
                await self._settle(joining.result())

    async def stop(self) -> None:
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)

    async def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit first, so that the next owner repeats nothing; then tell the listener."""
        await self._commit()
        try:
            await self.listener.on_revoked(partitions)
        finally:
            self._subscription.set_partitions(self._subscription.partitions.keys() - set(partitions))

    async def _prepare(self, topics: Collection[str]) -> None:
        held = list(self._subscription.partitions)
        if self._group.lost:
            await self._lose(held)
        elif self._group.is_cooperative:
            unwanted = [partition for partition in held if partition.topic not in topics]
            if unwanted:
                await self.give_up(unwanted)
        elif held:
            await self.give_up(held)

    async def _lose(self, held: Sequence[TopicPartition]) -> None:
        """Other members may own them already: nothing can be committed."""
        try:
            if held:
                await self.listener.on_lost(held)
        finally:
            self._subscription.set_partitions(())

    async def _settle(self, assigned: Sequence[TopicPartition]) -> None:
        """Whatever the listener raises: the group has given these partitions, and waits for the others."""
        failure = None
        try:
            await self._give_up_all_but(assigned)
        except Exception as error:
            failure = error
        kept = self._subscription.partitions.keys() & set(assigned)
        self._subscription.set_partitions(assigned)
        await self.listener.on_assigned([partition for partition in assigned if partition not in kept])
        if failure is not None:
            raise failure

    async def _give_up_all_but(self, assigned: Sequence[TopicPartition]) -> None:
        if self._group.lost:  # on its way in: it came back under another member id
            try:
                await self._lose(list(self._subscription.partitions))
            finally:
                self._group.lost = False
        revoked = [partition for partition in self._subscription.partitions if partition not in assigned]
        if revoked:
            self._group.must_join = True
            await self.give_up(revoked)
