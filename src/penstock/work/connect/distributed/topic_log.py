"""A compacted topic that several workers write and each of them reads from the beginning.

Records are written in the order in which they are handed in. What one worker has written, it reads like the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.admin.topics import NewTopic
from penstock.client.cluster import ClusterClient, topic_may_come
from penstock.client.log_offsets import list_offsets
from penstock.client.values import LATEST, ConsumedRecord, RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed.settings import AUTOMATIC, STORES, Storage, parse_settings, storage_of
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.logs import OnRecord

POLL_MS: Final = 500
PAUSE_S: Final = 1.0
READ_LIMIT_S: Final = 30.0
logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class TopicError(Exception):
    pass


class TopicLog:
    """`start`, `put` or `post`, and `stop` at the end."""

    def __init__(
        self,
        clients: Clients,
        storage: Storage,
        name: str,
        on_record: OnRecord,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_read` is called once after a batch of records."""
        self.storage = storage
        self.end = 0
        self._clients = clients
        self._name = name
        self._on_record = on_record
        self._on_read = on_read
        self._producer = clients.producer({}, client_id=name, linger_ms=0)
        self._consumer = clients.consumer(
            {},
            client_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._positions: dict[TopicPartition, int] = {}
        self._progress = asyncio.Condition()
        self._posted: asyncio.Queue[bytes] = asyncio.Queue()
        """Keys, each of them once; their last values lie beside."""
        self._values: dict[bytes, bytes | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False

    async def start(self) -> None:
        """Create the topic if it is missing, and read it; TopicError, and errors of the cluster."""
        await self._make()
        await self._producer.start()
        await self._consumer.start()
        self._is_open = True
        partitions = await _when_known(
            self._consumer.cluster, lambda: self._consumer.partitions_for(self.storage.topic)
        )
        if self.storage.partitions == 1 and len(partitions) != 1:
            raise TopicError(f"topic {self.storage.topic} has {len(partitions)} partitions, and must have one")
        await self._consumer.assign(partitions)
        self._positions = dict.fromkeys(partitions, 0)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._post())]
        await self.read_to_end()

    async def stop(self) -> None:
        """Write what was posted, as far as that is quick."""
        try:
            async with asyncio.timeout(PAUSE_S):
                await self._posted.join()
        except TimeoutError:
            logger.warning("%s: some records of %s were not written", self._name, self.storage.topic)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._is_open:
            await self._consumer.close(timeout_ms=1_000)
        await self._producer.close(timeout_ms=1_000)

    async def claim(self) -> None:
        """Nothing keeps a leader before from writing."""

    async def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            await self.put(key, value)

    async def put(self, key: bytes, value: bytes | None) -> RecordMetadata:
        """Returns when the record is safe."""
        return await self._producer.send_and_wait(self.storage.topic, value, key=key)

    def post(self, key: bytes, value: bytes | None) -> None:
        """Write a record later. Of a key only the last value counts: while the cluster is away, many may come."""
        if key not in self._values:
            self._posted.put_nowait(key)
        self._values[key] = value

    async def read_to_end(self) -> None:
        """Wait until everything that is there now was read, and transactions in it have ended; TimeoutError."""
        async with asyncio.timeout(READ_LIMIT_S):
            ends = await _when_known(self._consumer.cluster, self._ends)
            async with self._progress:
                await self._progress.wait_for(
                    lambda: all(self._positions[partition] >= end for partition, end in ends.items())
                )

    async def _ends(self) -> dict[TopicPartition, int]:
        """Behind open transactions, too: what a reader of committed records has got to lies before them."""
        found = await list_offsets(self._consumer.cluster, dict.fromkeys(self._positions, LATEST))
        return {partition: one.offset for partition, one in found.items()}

    # In the background

    async def _read(self) -> None:
        """Whatever fails, the worker hears of what comes: it goes on with its tasks as long as it is in its group."""
        is_new = False
        while True:
            try:
                records = await self._consumer.poll(POLL_MS)
                for record in records:
                    self._take(record)
                    self.end = max(self.end, record.offset + 1)
                is_new |= bool(records)
                if is_new:
                    self._on_read()
                    is_new = False
                for partition in self._positions:
                    self._positions[partition] = await self._consumer.position(partition)
            except Exception as error:
                logger.warning("%s cannot read %s: %r", self._name, self.storage.topic, error)
                await asyncio.sleep(PAUSE_S)
            async with self._progress:
                self._progress.notify_all()

    def _take(self, record: ConsumedRecord) -> None:
        """Others write to the topic as well: what cannot be read is passed over, or nothing behind it would ever be."""
        if record.key is None:
            return
        try:
            self._on_record(record.key, record.value, record.offset)
        except Exception as error:
            where = f"{record.topic_partition} at offset {record.offset}"
            logger.warning("%s passes over what it cannot read in %s: %r", self._name, where, error)

    async def _post(self) -> None:
        while True:
            key = await self._posted.get()
            try:
                await self.put(key, self._values.pop(key))
            except Exception as error:
                logger.warning("%s cannot write %r to %s: %r", self._name, key, self.storage.topic, error)
            finally:
                self._posted.task_done()

    async def _make(self) -> None:
        storage = self.storage
        async with self._clients.admin(self._name) as admin:
            if storage.is_automatic:
                await create(admin, storage)
            elif not await admin.topics.is_there(storage.topic):
                raise TopicError(
                    f"topic {storage.topic} is missing, and {AUTOMATIC}=false: make it, with cleanup.policy=compact, "
                    "or all three that are in the worker's file by `penstock worker --create-topics FILE`"
                )
            await admin.topics.wait_until_led(storage.topic)
            entries = await _when_known(
                admin.cluster, lambda: admin.configs.describe(ResourceType.TOPIC, storage.topic)
            )
            policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), "compact")
            if policy != "compact":
                raise TopicError(
                    f"topic {storage.topic} has cleanup.policy={policy}, and would forget: it must be compact"
                )


async def create(admin: Admin, storage: Storage) -> None:
    """Unless it is there; TopicError."""
    new = NewTopic(
        name=storage.topic,
        partitions=storage.partitions,
        replication_factor=storage.replication_factor,
        configs=storage.configs,
    )
    try:
        await admin.topics.create_unless_there(new)
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_REPLICATION_FACTOR:
            raise
        raise TopicError(
            f"topic {storage.topic} cannot have {storage.replication_factor} replicas ({error}); "
            "set config., offset. and status.storage.replication.factor"
        ) from None


async def create_all(config: Mapping[str, str], said: Callable[[str], None]) -> None:
    """The three topics of a worker with this configuration; ConfigError, TopicError, errors of the cluster."""
    config = Providers(config).resolved(config)
    settings = parse_settings(config)
    async with Clients.of_worker(config, settings["bootstrap.servers"]).admin("penstock-worker") as admin:
        for store in STORES:
            storage = storage_of(store, settings, config)
            was_there = await admin.topics.is_there(storage.topic)
            await create(admin, storage)
            said(f"topic {storage.topic}: {'it is there already' if was_there else 'created'}")


async def _when_known(cluster: ClusterClient, ask: Callable[[], Awaitable[Result]]) -> Result:
    """Repeats a question about a topic that was just created until the broker has heard of the topic."""
    return await cluster.retrying(ask, passing=topic_may_come)
