"""A task that takes records from a topic and writes others, exactly once, however often its worker dies.

What it writes and how far it has read are in one transaction. The transactional id is the group's with the task's: who
opens a transfer fences whoever had the task before, and goes on where that one's last transaction ended. A worker that
was paused and wakes gets ProducerFencedError with its next transaction, of which nothing is ever read.

A partition of which nothing is committed begins at its first record. A place that the log has no longer is an error and
not another place: from the beginning records would come twice, and those that were deleted would be passed over.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Self

from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.client.values import ConsumedRecord, RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

POLL_MS: Final = 1_000


class NotOwnedError(Exception):
    """The task is another worker's by now, as far as this one can know."""


class Transfer:
    """Opened while the worker has the task:

    async with Transfer(address, "workers", "words-0", [TopicPartition("words", 0)], group.owned_until_s) as transfer:
        async with transfer.batch() as records:
            for record in records:
                await transfer.send("shouted", record.value.upper())
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        task: str,
        partitions: Sequence[TopicPartition],
        owned_until_s: Callable[[], float] = lambda: math.inf,
        **settings: Any,
    ) -> None:
        """`group_id` is that of the workers, which also has how far the task is; `owned_until_s` is `Group`'s, on the
        event loop's clock. Further `settings` are those of ClientSettings.
        """
        common: dict[str, Any] = {"client_id": f"{group_id}-{task}", **settings}
        ClientSettings(**common)  # TypeError for what is none of them
        reads = ConsumerSettings(
            **common,
            group_id=group_id,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        self._consumer = Consumer(bootstrap_servers, reads)
        self._producer = Producer(bootstrap_servers, ProducerSettings(**common, transactional_id=f"{group_id}-{task}"))
        self._partitions = partitions
        self._task = task
        self._cure = (
            "What it has not read is lost, or what it has read was taken back: stop the workers, say where it goes on "
            f"(`penstock groups --group {group_id} --reset-offsets`), and start them again."
        )
        self._owned_until_s = owned_until_s
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """NotOwnedError, ClientError, KafkaError."""
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._producer)
            await self._producer.init_transactions()
            if asyncio.get_running_loop().time() >= self._owned_until_s():
                raise NotOwnedError(f"{self._task} may run elsewhere by now: it is opened where it is assigned")
            await opening.enter_async_context(self._consumer)
            await self._consumer.assign(self._partitions)
            await self._begin()
            self._open = opening.pop_all()
        return self

    async def _begin(self) -> None:
        """Where the last transfer has ended, or at the first records."""
        committed = await self._consumer.committed(self._partitions)
        new = [one for one in self._partitions if committed.get(one) is None]
        for partition, offset in (await self._consumer.beginning_offsets(new)).items() if new else ():
            self._consumer.seek(partition, offset)

    async def __aexit__(self, *failure: Any) -> None:
        await self._open.__aexit__(*failure)

    @asynccontextmanager
    async def batch(
        self, timeout_ms: int = POLL_MS, max_records: int | None = None
    ) -> AsyncIterator[list[ConsumedRecord]]:
        """The next records, none if there are none for so long. At the end of the block what was sent in it and how far
        was read are committed; if the block raises, nothing is, and the same records come again. ProducerFencedError.

        After a ConnectionFailedError it is not known whether it was committed: open another Transfer, which goes on
        where it ended. This one raises TransactionStateError. KafkaError OFFSET_OUT_OF_RANGE where the log was cut, or
        its records deleted, beyond where the task is: somebody decides where it goes on.
        """
        before = {one: await self._consumer.position(one) for one in self._partitions}
        try:
            records = await self._consumer.poll(timeout_ms, max_records)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            raise KafkaError(error.code, f"{self._task}: {error}. {self._cure}") from error
        try:
            async with self._producer.transaction():
                yield records
                if records:
                    await self._producer.send_offsets_to_transaction(self._consumer)
        except BaseException:
            for partition, offset in before.items():
                self._consumer.seek(partition, offset)
            raise

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None
    ) -> asyncio.Future[RecordMetadata]:
        """Within `batch`, as `Producer.send`."""
        return await self._producer.send(topic, value, key=key, partition=partition)
