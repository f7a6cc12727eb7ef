"""The config topic where leaders write in transactions: one that was replaced and does not know it writes nothing more.

Each write is a transaction of one id for the whole group, as Kafka's workers have it. Who claims is its producer from
then on; what an earlier leader has open is aborted.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.protocol.errors import KafkaError
from penstock.work.connect.distributed.topic_log import READ_LIMIT_S, TopicLog
from penstock.work.connect.runtime.logs import TOO_LARGE, NotLeadingError

TIMEOUT_MS: Final = 10_000
"""So long readers wait for a transaction that a leader left open when it died: less than their own limit."""
assert TIMEOUT_MS < 1000 * READ_LIMIT_S


class ClaimedLog(TopicLog):
    def __init__(self, *arguments: Any, transactional_id: str, on_loss: Callable[[], None]) -> None:
        """`on_loss` is called when the claim is lost: whoever still leads must claim again."""
        super().__init__(*arguments)
        self._id = transactional_id
        self._on_loss = on_loss
        self._leading: Producer | None = None
        self._in_turn = asyncio.Lock()

    async def stop(self) -> None:
        await self._drop()
        await super().stop()

    async def claim(self) -> None:
        """ClientError, KafkaError."""
        async with self._in_turn:
            await self._drop()
            producer = self._clients.producer(
                {}, client_id=self._name, linger_ms=0, transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS
            )
            try:
                await producer.start()
                await producer.init_transactions()
            except BaseException:
                await producer.close(timeout_ms=0)
                raise
            self._leading = producer

    async def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """All of them or none. KafkaError for what is too large."""
        async with self._in_turn:
            if self._leading is None:
                raise NotLeadingError(f"{self._name} has not claimed {self.storage.topic}")
            try:
                async with self._leading.transaction() as producer:
                    for key, value in rows.items():
                        await producer.send(self.storage.topic, value, key=key)
            except (ClientError, KafkaError) as error:
                if (refusal := _too_large(error)) is not None:  # and nothing of it is there: the claim is as it was
                    raise refusal from error
                await self._drop()
                self._on_loss()
                raise NotLeadingError(f"{self._name} could not write to {self.storage.topic}: {error}") from error
            except BaseException:
                await self._drop()
                self._on_loss()
                raise

    async def _drop(self) -> None:
        producer, self._leading = self._leading, None
        if producer is not None:
            await producer.close(timeout_ms=0)


def _too_large(error: Exception) -> KafkaError | None:
    """The refusal that has failed a transaction, if that is for its records' size."""
    for one in (error, error.__cause__):
        if isinstance(one, KafkaError) and one.code in TOO_LARGE:
            return one
    return None
