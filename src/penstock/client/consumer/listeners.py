"""What an application may hang into a consumer: a listener to rebalances, and interceptors."""

from collections.abc import Mapping, Sequence

from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition


class RebalanceListener:
    """Hears of changes to the assignment: revoked (or lost), then assigned. Override what you need.

    The methods run within `poll`, before it returns records: in `on_revoked` the partitions are still this consumer's,
    so it may commit; in `on_lost` another member may own them already.
    """

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Taken away without notice. By default this is treated as `on_revoked`."""
        await self.on_revoked(partitions)


class ConsumerInterceptor:
    """Sees records before the application does, and commits after they were made. Override what you need."""

    async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records that the application is to see."""
        return records

    async def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...
