"""Transactions from outside: which there are, who writes to a partition, and the end of those that hang (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar, cast

from penstock.client.at_leaders import ask_leaders
from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import COORDINATOR_MOVED
from penstock.client.errors import raise_for
from penstock.client.messages import TRANSACTION_COORDINATOR, Refused
from penstock.client.values import TopicPartition, numbers_by_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

NONE: Final = -1
TERMINATING_TIMEOUT_MS: Final = 60_000
ONGOING: Final = "Ongoing"
WITHOUT_TIMEOUT_MS: Final = 2**31 - 1
TWO_PHASES_SINCE: Final = 6
"""InitProducerId of brokers with transaction.two.phase.commit.enable."""
IDS_AT_ONCE: Final = 50
PARTITIONS_AT_ONCE: Final = 500
"""That one node is asked about their producers."""


Answer = TypeVar("Answer", bound=Message)


class TransactionListing(Value):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(Value):
    """`start_ms` is -1 where no transaction has begun."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_decided_elsewhere(self) -> bool:
        """Whether it is open, and waits for a decision for as long as that takes (KIP-939)."""
        return self.state == ONGOING and self.timeout_ms == WITHOUT_TIMEOUT_MS


class ProducerDescription(Value):
    """Who has written to a partition. -1 where it has no open transaction there, or never had one."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int


Producers = dict[TopicPartition, list[ProducerDescription]]


class TransactionAdmin:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def listings(
        self, *, producer_ids: Collection[int] = (), duration_ms: int = NONE, pattern: str | None = None
    ) -> list[TransactionListing]:
        """Of all coordinators, sorted. Only those of these producers, open for longer than that, and whose id fits."""
        request = ListTransactionsRequest(
            producer_id_filters=sorted(producer_ids), duration_filter=duration_ms, transactional_id_pattern=pattern
        )

        async def attempt() -> list[TransactionListing]:
            brokers = list((await self._cluster.refresh([])).brokers)
            answers = await asyncio.gather(
                *(self._cluster.to_node(node_id, request, ListTransactionsResponse) for node_id in brokers)
            )
            found = []
            for node_id, answer in zip(brokers, answers, strict=True):
                raise_for(answer.error_code, pattern and f"pattern {pattern!r}")
                found += [
                    TransactionListing(row.transactional_id, node_id, row.producer_id, row.transaction_state)
                    for row in answer.transaction_states
                ]
            return sorted(found, key=lambda listing: listing.transactional_id)

        return await self._cluster.retrying(attempt)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """TRANSACTIONAL_ID_NOT_FOUND if there is none of this name."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def attempt() -> TransactionDescription:
            coordinator = await self._cluster.coordinator(transactional_id, TRANSACTION_COORDINATOR)
            response = await self._cluster.to_coordinator(
                transactional_id, request, DescribeTransactionsResponse, key_type=TRANSACTION_COORDINATOR
            )
            row = response.transaction_states[0]
            self._check(transactional_id, row.error_code)
            return TransactionDescription(
                transactional_id,
                coordinator,
                row.producer_id,
                row.producer_epoch,
                row.transaction_state,
                row.transaction_timeout_ms,
                row.transaction_start_time_ms,
                tuple(TopicPartition(it.topic, index) for it in row.topics for index in it.partitions),
            )

        return await self._cluster.retrying(attempt)

    async def terminate(self, transactional_id: str) -> None:
        """Fence the producer of the id, and abort the transaction that it has open."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TERMINATING_TIMEOUT_MS
        )

        await self._ask(transactional_id, request, InitProducerIdResponse)

    async def prepared(self) -> list[TransactionDescription]:
        """Open transactions that are decided elsewhere, and wait for that: they never time out. Sorted by id."""
        ids = [it.transactional_id for it in await self.listings() if it.state == ONGOING]
        known = []
        for start in range(0, len(ids), IDS_AT_ONCE):
            some = ids[start : start + IDS_AT_ONCE]
            known += await asyncio.gather(*(self.describe(transactional_id) for transactional_id in some))
        return [it for it in known if it.is_decided_elsewhere]

    async def complete(self, transactional_id: str, *, commits: bool) -> TransactionDescription:
        """Decide about a prepared transaction in place of its producer, which is fenced; the transaction as it was.

        KafkaError INVALID_TXN_STATE where none waits.
        """
        waiting = await self.describe(transactional_id)
        if not waiting.is_decided_elsewhere:
            why = f"no prepared transaction of {transactional_id!r} waits: it is {waiting.state}"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, why)
        connection = await self._cluster.coordinator_connection(transactional_id, TRANSACTION_COORDINATOR)
        if connection.version_for(ApiKey.INIT_PRODUCER_ID) < TWO_PHASES_SINCE:
            why = "the brokers have transaction.two.phase.commit.enable=false: they would abort what is to be kept"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
        keeping = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TERMINATING_TIMEOUT_MS, keep_prepared_txn=True
        )
        owner = await self._ask(transactional_id, keeping, InitProducerIdResponse)
        if (owner.ongoing_txn_producer_id, owner.ongoing_txn_producer_epoch) != (
            waiting.producer_id,
            waiting.producer_epoch,
        ):
            why = (
                f"transaction {waiting.producer_id}:{waiting.producer_epoch} of {transactional_id!r} was ended "
                "meanwhile by somebody else; its producer was fenced, and what is open now was left as it is"
            )
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, why)
        ending = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=owner.producer_id,
            producer_epoch=owner.producer_epoch,
            committed=commits,
        )
        await self._ask(transactional_id, ending, EndTxnResponse)
        return waiting

    async def _ask(self, transactional_id: str, request: Message, answer: type[Answer]) -> Answer:
        """Its coordinator, again while a refusal may pass."""

        async def attempt() -> Answer:
            response: Any = await self._cluster.to_coordinator(
                transactional_id, request, answer, key_type=TRANSACTION_COORDINATOR
            )
            self._check(transactional_id, response.error_code)
            return cast("Answer", response)

        return await self._cluster.retrying(attempt)

    def _check(self, transactional_id: str, code: int) -> None:
        if code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(transactional_id, TRANSACTION_COORDINATOR)
        raise_for(code, f"transactional id {transactional_id!r}")

    # -- partitions ---------------------------------------------------------------------------------------------------

    async def producers(self, partitions: Collection[TopicPartition], broker_id: int | None = None) -> Producers:
        """Who has written to each, as its leader knows it, or that broker's replica."""
        found: Producers = {}
        waiting = sorted(partitions)
        for start in range(0, len(waiting), PARTITIONS_AT_ONCE):
            some = waiting[start : start + PARTITIONS_AT_ONCE]
            if broker_id is None:
                found |= await ask_leaders(self._cluster, dict.fromkeys(some), self._producers)
                continue
            told, refused = await self._producers(broker_id, dict.fromkeys(some))
            for error in refused.values():
                raise error
            found |= told
        return found

    async def _producers(self, node_id: int, wanted: Mapping[TopicPartition, None]) -> tuple[Producers, Refused]:
        topics = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in numbers_by_topic(wanted)]
        response = await self._cluster.to_node(
            node_id, DescribeProducersRequest(topics=topics), DescribeProducersResponse
        )
        told: Producers = {}
        refused: Refused = {}
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    about = row.error_message or f"producers of {partition}"
                    refused[partition] = KafkaError(ErrorCode(row.error_code), about)
                    continue
                told[partition] = [
                    ProducerDescription(
                        it.producer_id,
                        it.producer_epoch,
                        it.coordinator_epoch,
                        it.last_sequence,
                        it.last_timestamp,
                        it.current_txn_start_offset,
                    )
                    for it in row.active_producers
                ]
        return told, refused

    async def abort(self, partition: TopicPartition, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """End a transaction on one partition, which its coordinator does not know of. Others are not touched."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(coordinator_epoch, 0),
        )

        async def ask(
            node_id: int, wanted: Mapping[TopicPartition, None]
        ) -> tuple[dict[TopicPartition, None], Refused]:
            response = await self._cluster.to_node(
                node_id, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            code = response.markers[0].topics[0].partitions[0].error_code
            if code:
                return {}, {partition: KafkaError(ErrorCode(code), f"the transaction on {partition}")}
            return {partition: None}, {}

        await ask_leaders(self._cluster, {partition: None}, ask)

    async def hanging(
        self, partitions: Collection[TopicPartition], open_for_ms: int, broker_id: int | None = None
    ) -> Producers:
        """Transactions that no coordinator will end, among those whose last record is older than that."""
        now_ms = self._cluster.settings.now_ms()
        late = {
            partition: [
                it
                for it in producers
                if it.transaction_start_offset >= 0 and now_ms - it.last_timestamp_ms > open_for_ms
            ]
            for partition, producers in (await self.producers(partitions, broker_id)).items()
        }
        ids = {it.producer_id for producers in late.values() for it in producers}
        awaited = await self._awaited(ids) if ids else set()
        left = {
            partition: [it for it in producers if (it.producer_id, partition) not in awaited]
            for partition, producers in late.items()
        }
        return {partition: producers for partition, producers in left.items() if producers}

    async def _awaited(self, producer_ids: Collection[int]) -> set[tuple[int, TopicPartition]]:
        """Producers with the partitions that their coordinators know to be in their transactions."""
        listings = await self.listings(producer_ids=producer_ids)
        known = await asyncio.gather(*(self.describe(listing.transactional_id) for listing in listings))
        return {(it.producer_id, partition) for it in known for partition in it.partitions}
