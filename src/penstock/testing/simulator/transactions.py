"""Clients that write transactions, and read what is committed: to two partitions and to the offsets of a group.

A transaction has a number, which is in its records and is the offset that it commits. What became of it is known when
its end was acknowledged; where it was not, it was committed or aborted, but as a whole.

| what                        | rule                                                                         |
| --------------------------- | ---------------------------------------------------------------------------- |
| a record that was aborted   | is never given to a reader of committed records                              |
| a transaction               | is there in the end with all records that were acknowledged, or with none    |
| one that is committed       | is there                                                                     |
| the offset of the group     | is the number of a transaction that is committed, the last one that is known |
| once all is well            | nothing is open: readers of committed records see as far as all others       |
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any, Final, TypeVar

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.topics import NewTopic
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import fetch_committed
from penstock.client.consumer import Consumer
from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings, ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.schema import Message
from penstock.testing.simulator.clients import FAILURES, Client, World
from penstock.testing.simulator.plan import Plan

PARTITIONS: Final = 2
TIMEOUT_MS: Final = 5_000
PAUSE_S: Final = 0.1
SETTLE_LIMIT_S: Final = 60.0
MARKERS_LIMIT_S: Final = 10.0
"""How long markers may take where all is well; an end is acknowledged before they are written."""
OF_TRANSACTIONS: Final = 1

Answer = TypeVar("Answer", bound=Message)
Ends = dict[TopicPartition, int]


class Fate(Enum):
    UNKNOWN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class _Transaction:
    fate: Fate = Fate.UNKNOWN
    acknowledged: dict[bytes, None] = field(default_factory=dict)
    commits_offset: bool = False


class TransactingClient(Client):
    def __init__(self, world: World, name: str, random: Random, plan: Plan) -> None:
        super().__init__(world, name, random)
        self.is_made = False
        self._plan = plan
        self._by_consensus = plan.by_consensus
        self._segment_bytes = random.choice((300, 1000, 100_000))
        self._group = f"group of {name}"
        self._epochs_rise = random.random() < 0.5
        self._transactions: dict[int, _Transaction] = {}
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._cluster = ClusterClient(world.addresses[0])
        self._seen: dict[int, bytes] = {}
        """Transactions of which a reader of committed records was given something."""

    # -- a life -------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        settings = ClientSettings(**self._world.common(self.name, self._random))
        if not self.is_made:
            await self._make(settings)
        async with ClusterClient(self._world.bootstrap(self._random), settings) as cluster:
            self._cluster = cluster
            await self._begin_life()
            await self._look_at_offset()
            for _ in range(self._random.randrange(2, 30)):
                if self._is_done:
                    return
                await self._transact()

    async def _make(self, settings: ClientSettings) -> None:
        configs = {"internal.segment.bytes": str(self._segment_bytes), "retention.ms": "-1"}
        if self._by_consensus:
            configs["replication.mode"] = "consensus"
        topic = NewTopic(name=self.name, partitions=PARTITIONS, replication_factor=self._plan.replicas, configs=configs)
        async with Admin(self._world.bootstrap(self._random), settings) as admin:
            try:
                await admin.topics.create(topic)
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # by an earlier attempt of its own
                    raise
            if self._epochs_rise:
                await admin.features.update({TRANSACTION_VERSION: 2}, UpgradeType.UPGRADE)
        self.is_made = True

    async def _begin_life(self) -> None:
        """From now on what this client did before is committed or aborted."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        began = await self._coordinated(request, InitProducerIdResponse, newest=4)
        self._producer = began.producer_id, began.producer_epoch
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)

    async def _transact(self) -> None:
        number = await self._write()
        await asyncio.sleep(self._random.expovariate(4))
        await self._end(number, is_commit=self._random.random() < 0.6)

    async def _write(self) -> int:
        """All of the next transaction but its end; its number."""
        number = len(self._transactions) + 1
        transaction = self._transactions[number] = _Transaction()
        parts = self._random.sample(range(PARTITIONS), self._random.randrange(1, PARTITIONS + 1))
        if not self._epochs_rise:
            await self._add(parts)
        for _ in range(self._random.randrange(1, 4)):
            await self._produce(number, self._random.choice(parts))
        if self._random.random() < 0.5:
            await self._commit_offset(number)
            transaction.commits_offset = True
        return number

    async def _add(self, parts: list[int]) -> None:
        producer_id, epoch = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.name, partitions=parts)],
        )

        def code_of(response: AddPartitionsToTxnResponse) -> int:
            results = response.results_by_topic_v3_and_below[0].results_by_partition
            return next((one.partition_error_code for one in results if one.partition_error_code), 0)

        await self._coordinated(request, AddPartitionsToTxnResponse, newest=3, code_of=code_of)

    async def _produce(self, number: int, partition: int) -> None:
        """A record is sent once more with its sequence until it is acknowledged, or known to be refused."""
        value = f"{self.name}:{number}:{partition}.{self._sequences[partition]}".encode()
        producer_id, epoch = self._producer
        batch = encode_batch(
            [Record(timestamp_ms=self._world.loop.now_ms(), value=value)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[partition],
            is_transactional=True,
        )
        data = TopicProduceData(
            name=self.name, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=2_000, topic_data=[data])

        async def attempt() -> int:
            topic, newest = await self._cluster.topic(self.name), 12 if self._epochs_rise else 11
            response = await self._cluster.to_node(topic.partitions[partition].leader, request, ProduceResponse, newest)
            row = response.responses[0].partition_responses[0]
            _raise_for(row.error_code)
            return row.base_offset

        offset = await self._cluster.retrying(attempt, passing=_may_pass)
        self._sequences[partition] += 1
        self._transactions[number].acknowledged[value] = None
        self._note(f"{value.decode()} is at {self.name}-{partition} offset {offset}")

    async def _commit_offset(self, number: int) -> None:
        producer_id, epoch = self._producer
        if not self._epochs_rise:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=self._group
            )
            await self._coordinated(added, AddOffsetsToTxnResponse, newest=3)
        wanted = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self._group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.name, partitions=[wanted])],
        )

        async def attempt() -> None:
            try:
                newest = 5 if self._epochs_rise else 3
                response = await self._cluster.to_coordinator(self._group, request, TxnOffsetCommitResponse, newest)
                _raise_for(response.topics[0].partitions[0].error_code)
            except KafkaError:
                self._cluster.forget_coordinator(self._group)
                raise

        await self._cluster.retrying(attempt, passing=_may_pass)

    async def _end(self, number: int, *, is_commit: bool) -> None:
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        ended = await self._coordinated(request, EndTxnResponse, newest=5 if self._epochs_rise else 4)
        if self._epochs_rise:
            self._producer = ended.producer_id, ended.producer_epoch
            self._sequences = dict.fromkeys(range(PARTITIONS), 0)
        self._transactions[number].fate = Fate.COMMITTED if is_commit else Fate.ABORTED
        if not is_commit and number in self._seen:
            self._aborted_is_read(number, self._seen[number])
        self._note(f"transaction {number} is {'committed' if is_commit else 'aborted'}")

    async def _coordinated(
        self,
        request: Message,
        answer: type[Answer],
        *,
        newest: int,
        code_of: Any = lambda response: response.error_code,
    ) -> Answer:
        """Asked again while it may pass: each of these requests may be repeated."""

        async def attempt() -> Answer:
            found = await self._cluster.to_any(
                FindCoordinatorRequest(key=self.name, key_type=OF_TRANSACTIONS), FindCoordinatorResponse, 3
            )
            _raise_for(found.error_code)
            response = await self._cluster.to_node(found.node_id, request, answer, newest)
            _raise_for(code_of(response))
            return response

        return await self._cluster.retrying(attempt, passing=_may_pass)

    @property
    def _may_be_lost(self) -> bool:
        """Whether nodes may have forgotten what they had acknowledged: the end of a transaction among it."""
        return bool(self._world.ledger.lossy_crashes) or self._plan.is_careless

    # -- rules --------------------------------------------------------------------------------------------------------

    def seen(self, value: bytes) -> None:
        """A reader of committed records was given this."""
        number = _number_in(value)
        self._seen[number] = value
        if self._transactions[number].fate is Fate.ABORTED:
            self._aborted_is_read(number, value)

    def _aborted_is_read(self, number: int, value: bytes) -> None:
        """A power cut may have taken the marker that aborts it, and left the record for a later one to commit."""
        if self._may_be_lost:
            return
        self._world.ledger.violated(f"{self.name}: transaction {number} was aborted, and {value.decode()} is read")

    async def _look_at_offset(self) -> None:
        """All earlier transactions have ended, so nothing is pending."""
        place = TopicPartition(self.name, 0)
        committed = await fetch_committed(self._cluster, self._group, [place], require_stable=not self._may_be_lost)
        found = committed[place].offset if place in committed else 0
        with_offset = [number for number, one in self._transactions.items() if one.commits_offset or number == found]
        last = max((n for n in with_offset if self._transactions[n].fate is Fate.COMMITTED), default=0)
        allowed = {last, *(n for n in self._transactions if n > last and self._transactions[n].fate is Fate.UNKNOWN)}
        if found not in allowed and not self._may_be_lost:
            self._world.ledger.violated(f"{self.name}: the offset is {found}, transaction {last} has committed its own")

    async def settle(self) -> None:
        """End what was left open, and look at all of it."""
        try:
            async with asyncio.timeout(SETTLE_LIMIT_S):
                await self._settle()
        except TimeoutError:
            self._world.ledger.violated(f"{self.name}: readers of committed records do not get to the end")

    async def _settle(self) -> None:
        settings = ClientSettings(**self._world.common(self.name, self._random))
        async with ClusterClient(self._world.bootstrap(self._random), settings) as cluster:
            self._cluster = cluster
            while True:
                try:
                    await self._begin_life()
                    await self._look_at_offset()
                    break
                except FAILURES as error:
                    self._failed(error)
                    await asyncio.sleep(PAUSE_S)
            self.compare(await self._read_committed())

    async def _read_committed(self) -> list[bytes]:
        values, common = list[bytes](), self._world.common(self.name, self._random)
        settings = ConsumerSettings(
            **common, enable_auto_commit=False, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        everything = settings.replace(isolation_level="read_uncommitted")
        bootstrap = self._world.bootstrap(self._random)
        places = [TopicPartition(self.name, index) for index in range(PARTITIONS)]
        async with Consumer(bootstrap, settings) as consumer, Consumer(bootstrap, everything) as other:
            stable, ends = await self._ends(consumer, other, places)
            for place in places:
                if stable[place] < ends[place] and not self._may_be_lost:
                    self._world.ledger.violated(f"{place} is stable up to {stable[place]}, and ends at {ends[place]}")
                await consumer.assign([place])
                consumer.seek(place, 0)
                while await consumer.position(place) < stable[place]:
                    values += [record.value or b"" for record in await consumer.poll(1000)]
        return values

    async def _ends(self, consumer: Consumer, other: Consumer, places: list[TopicPartition]) -> tuple[Ends, Ends]:
        """The last stable offsets, and where the logs end, once the last markers are written."""
        limit_s = asyncio.get_running_loop().time() + MARKERS_LIMIT_S
        while True:
            stable, ends = await consumer.end_offsets(places), await other.end_offsets(places)
            if stable == ends or self._may_be_lost or asyncio.get_running_loop().time() > limit_s:
                return stable, ends
            await asyncio.sleep(PAUSE_S)

    def compare(self, values: Iterable[bytes]) -> None:
        """`values` are what a reader of committed records finds in the end."""
        ledger, there = self._world.ledger, dict[int, dict[bytes, None]]()
        for value in values:
            its = there.setdefault(_number_in(value), {})
            if value in its:
                ledger.violated(f"{self.name}: {value.decode()} is there twice")
            its[value] = None
        for number, one in self._transactions.items():
            found = there.get(number, {})
            if found and one.fate is Fate.ABORTED:
                self._aborted_is_read(number, next(iter(found)))
            missing = [value for value in one.acknowledged if value not in found]
            if missing and (found or one.fate is Fate.COMMITTED) and not self._may_be_lost:
                ledger.violated(f"{self.name}: of transaction {number}, which is {one.fate.name}, {missing} is missing")

    @property
    def ended(self) -> int:
        return sum(one.fate is not Fate.UNKNOWN for one in self._transactions.values())


class CommittedReader(Client):
    """Reads what a client has committed, from the beginning, again and again.

    For a time, not for a number of answers: where segments are small an answer has few records, and the end would
    be out of reach.
    """

    def __init__(self, world: World, of: TransactingClient, random: Random) -> None:
        super().__init__(world, f"reader of {of.name}", random)
        self._of = of

    async def _live(self) -> None:
        if not self._of.is_made:
            await asyncio.sleep(PAUSE_S)
            return
        settings = ConsumerSettings(
            **self._world.common(self.name, self._random),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with Consumer(self._world.bootstrap(self._random), settings) as consumer:
            await consumer.assign([TopicPartition(self._of.name, index) for index in range(PARTITIONS)])
            loop = asyncio.get_running_loop()
            ends_at = loop.time() + self._random.uniform(1.0, 8.0)
            while loop.time() < ends_at and not self._is_done:
                for record in await consumer.poll(200):
                    self._of.seen(record.value or b"")


def _number_in(value: bytes) -> int:
    return int(value.split(b":")[1])


def _raise_for(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))


def _may_pass(error: Exception) -> bool:
    return isinstance(error, ClientError) or (isinstance(error, KafkaError) and error.retriable)
