"""The consumer of a share group for programs without an event loop; it has one in a thread of its own.

with BlockingShareConsumer("127.0.0.1:9092", ShareConsumerSettings(group_id="mails")) as consumer:
    consumer.subscribe(["jobs"])
    while True:
        for record in consumer.poll():
            send_mail(record.value)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Self, TypeVar

from penstock.client.background import BackgroundThread
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import CLOSE_MS, Outcome, ShareConsumer, Told
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.records import SharedRecord
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address

Result = TypeVar("Result")


class BlockingShareConsumer:
    """As `ShareConsumer`, whose methods it has; callbacks are called in its thread."""

    def __init__(
        self, bootstrap_servers: str | Sequence[Address], settings: ShareConsumerSettings | None = None
    ) -> None:
        """Reaches the cluster. ValueError without a group; ClusterUnreachableError."""
        self._thread = BackgroundThread("share consumer")
        try:
            self._consumer = self._thread.run(_called(lambda: ShareConsumer(bootstrap_servers, settings)))
            self._thread.run(self._consumer.start())
        except BaseException:
            asyncio.run(self._thread.close())
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[SharedRecord]:
        records = aiter(self._consumer)
        while True:
            yield from self._taken(_one(records))

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        try:
            self._thread.run(self._consumer.close(timeout_ms))
        finally:
            asyncio.run(self._thread.close())

    def subscribe(self, topics: Collection[str]) -> None:
        self._thread.run(self._consumer.subscribe(topics))

    def unsubscribe(self) -> None:
        self._thread.run(self._consumer.unsubscribe())

    @property
    def subscription(self) -> list[str]:
        return self._consumer.subscription

    def poll(self, timeout_ms: int = 1_000) -> list[SharedRecord]:
        return self._taken(self._consumer.poll(timeout_ms))

    def _taken(self, work: Coroutine[Any, Any, list[SharedRecord]]) -> list[SharedRecord]:
        """Records that nobody gets any more, as the program is interrupted, are released."""
        taken: list[SharedRecord] = []

        async def take() -> None:
            taken.extend(await work)

        try:
            self._thread.run(take())
        except BaseException:
            if taken:
                self._call(lambda: self._consumer.release(taken))
            raise
        return taken

    def acknowledge(
        self,
        record: SharedRecord,
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        delay_ms: int | None = None,
        reason: str = "",
    ) -> None:
        self._call(lambda: self._consumer.acknowledge(record, kind, delay_ms=delay_ms, reason=reason))

    def acknowledge_offset(
        self,
        partition: TopicPartition,
        offset: int,
        kind: AcknowledgeType,
        *,
        delay_ms: int | None = None,
        reason: str = "",
    ) -> None:
        self._call(lambda: self._consumer.acknowledge_offset(partition, offset, kind, delay_ms=delay_ms, reason=reason))

    def commit_sync(self, timeout_ms: int | None = None) -> Outcome:
        return self._thread.run(self._consumer.commit_sync(timeout_ms))

    def commit_async(self) -> None:
        self._call(self._consumer.commit_async)

    def set_acknowledgement_commit_callback(self, told: Told | None) -> None:
        self._call(lambda: self._consumer.set_acknowledgement_commit_callback(told))

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        return self._consumer.acquisition_lock_timeout_ms

    def _call(self, function: Callable[[], Result]) -> Result:
        return self._thread.run(_called(function))


async def _one(records: AsyncIterator[SharedRecord]) -> list[SharedRecord]:
    return [await anext(records)]


async def _called(function: Callable[[], Result]) -> Result:
    return function()
