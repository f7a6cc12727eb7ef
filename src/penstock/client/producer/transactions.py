"""The transactions of one producer: who it is, what belongs to the present one, and how that ends.

| state   | what may follow                                                                            |
| ------- | ------------------------------------------------------------------------------------------ |
| new     | `initialize`: the producers before it are fenced, and what they left open is aborted        |
| ready   | `begin`                                                                                     |
| open    | records and offsets are added; `prepare`, `end`. After a failure (`fail`) it is aborted |
| prepared | nothing is added; `end`. The next producer's `initialize` may keep it (KIP-939)            |
| fenced  | nothing: another producer has the id                                                        |

At transaction.version 2 (KIP-890) leaders see to it themselves that a partition belongs to the transaction, and the
epoch is raised with each one. Before, partitions are added here, and the epoch is raised only after a failure, so that
records of which nobody knows whether they are there cannot come into a later transaction (KIP-360).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.committed_offsets import COORDINATOR_MOVED
from penstock.client.connection import Connection
from penstock.client.errors import (
    ClientError,
    ProducerFencedError,
    TransactionFailedError,
    TransactionStateError,
    raise_for,
)
from penstock.client.messages import OUTSIDER, TRANSACTION_COORDINATOR, Membership
from penstock.client.producer.sequences import Sequences
from penstock.client.settings import ProducerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition, by_topic, numbers_by_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

TRANSACTION_VERSION: Final = "transaction.version"
RAISES_EPOCHS: Final = 2
NEWEST_TO_ADD: Final = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
PRODUCE_ADDS, COMMIT_ADDS, END_RAISES = 12, 5, 5
"""The versions of Produce, TxnOffsetCommit and EndTxn by which a client says that it keeps to version 2."""
NO_ID: Final = -1
SHORT_PAUSES, SHORT_PAUSE_S = 10, 0.02
"""While the markers of the last transaction are written, which takes moments."""
FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)

TWO_PHASES_SINCE: Final = 6
"""InitProducerId of brokers with transaction.two.phase.commit.enable."""

NEEDS_VERSION: Final = (
    "transactions that are decided elsewhere need transaction.version 2: "
    "penstock features upgrade --feature transaction.version=2"
)

Answer = TypeVar("Answer", bound=Message)


class PreparedTransaction(Value):
    """What names a prepared transaction, for whoever decides about it to keep: `str` and `parse` are each other's."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """ValueError for what is none."""
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch))


class Reader(Protocol):
    """A consumer."""

    @property
    def membership(self) -> tuple[str, Membership]: ...

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


class Transactions:
    def __init__(self, cluster: ClusterClient, settings: ProducerSettings, sequences: Sequences) -> None:
        assert settings.transactional_id is not None
        self._cluster = cluster
        self._settings = settings
        self._sequences = sequences
        self._id = settings.transactional_id
        self._identity: tuple[int, int] | None = None
        self._raises = False
        self._partitions: dict[TopicPartition, None] = {}
        self._has_more = False
        """Whether the coordinator may know of more than `_partitions`."""
        self._may_be_committed = False
        self.is_open = False
        self._number = 0
        """Of the present transaction, or the last one."""
        self._is_ending = False
        """Whether its end was asked for, and may have come."""
        self._awaited = 0
        """How many wait for what was sent in it, to end it then."""
        self._prepared: PreparedTransaction | None = None
        self.failure: Exception | None = None
        """Why the present transaction can only be aborted."""
        self._fenced: ProducerFencedError | None = None
        self._telling = asyncio.Lock()
        """While the coordinator is told what belongs to the transaction, it is not told that this ends: what it heard
        of afterwards would begin another one, which nobody ends.
        """

    # -- life ---------------------------------------------------------------------------------------------------------

    async def initialize(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Be the producer of this transactional id, and the only one. Nothing happens if that is so already.

        With `keep_prepared` a transaction that is open is not aborted, but returned: it is the present one now.
        """
        if self._identity is None:
            response = await self._identify(-1, -1, keeps=keep_prepared)
            if keep_prepared and response.ongoing_txn_producer_id != NO_ID:
                kept = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
                self.is_open = self._raises = self._has_more = True
                self._prepared = kept
        return self._prepared

    async def _identify(self, producer_id: int, epoch: int, *, keeps: bool = False) -> InitProducerIdResponse:
        is_decided_elsewhere = self._settings.transaction_two_phase_commit_enable
        if keeps or is_decided_elsewhere:
            await self._check_two_phases()
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable2_pc=is_decided_elsewhere,
            keep_prepared_txn=keeps,
        )
        response = await self._ask(request, InitProducerIdResponse, "no producer id is to be had")
        self._become(response.producer_id, response.producer_epoch)
        return response

    async def _check_two_phases(self) -> None:
        connection = await self._coordinator()
        if connection.version_for(ApiKey.INIT_PRODUCER_ID) < TWO_PHASES_SINCE:
            raise TransactionStateError(
                "the cluster keeps no prepared transactions: its brokers need transaction.two.phase.commit.enable=true"
            )

    def _become(self, producer_id: int, epoch: int) -> None:
        if self._identity != (producer_id, epoch):
            self._identity = producer_id, epoch
            self._sequences.begin(self._identity)

    async def begin(self) -> None:
        self._check_not_fenced()
        if self.is_open:
            raise TransactionStateError("a transaction is open: commit or abort it first")
        await self.initialize()
        self._raises = await self._cluster_raises()
        if self._settings.transaction_two_phase_commit_enable and not self._raises:
            raise TransactionStateError(NEEDS_VERSION)
        self.is_open, self.failure = True, None
        self._number += 1

    async def _coordinator(self) -> Connection:
        return await self._cluster.retrying(
            lambda: self._cluster.coordinator_connection(self._id, TRANSACTION_COORDINATOR),
            timeout_ms=self._settings.max_block_ms,
        )

    async def _cluster_raises(self) -> bool:
        return (await self._coordinator()).features.get(TRANSACTION_VERSION, 0) >= RAISES_EPOCHS

    def fail(self, error: Exception) -> None:
        """Something that belongs to the transaction may be missing."""
        if self.is_open and self.failure is None:
            self.failure = error

    def present(self) -> int:
        """The transaction to which records and offsets go now, by its number. Raises what stands against that."""
        self.check()
        if self._is_ending or self._awaited:
            raise TransactionStateError("the transaction is being ended: what is sent now would belong to none")
        return self._number

    @contextmanager
    def taking_no_more(self) -> Iterator[None]:
        """While somebody waits for what was sent in it, to end it then: the wait is to have an end."""
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1

    def check(self) -> None:
        """Raises what stands against committing it."""
        self._check_not_fenced()
        if not self.is_open:
            raise TransactionStateError("there is no open transaction: begin one before records are sent")
        if self._prepared is not None:
            raise TransactionStateError("the transaction is prepared: it can only be ended")
        if self.failure is not None:
            raise self.end_of_all(self.failure) from self.failure

    @staticmethod
    def end_of_all(failure: Exception) -> TransactionFailedError:
        """For what is still to be sent in a transaction in which something has failed."""
        return TransactionFailedError(f"the transaction can only be aborted, as something in it has failed: {failure}")

    def _check_not_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced.with_traceback(None)  # each raise adds to it

    # -- what belongs to it -------------------------------------------------------------------------------------------

    @property
    def newest_produce(self) -> int:
        """The version in which records go."""
        return PRODUCE_ADDS if self._raises else PRODUCE_ADDS - 1

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Before records go there; not if the transaction ends meanwhile. Raises KafkaError, ClientError."""
        number = self._number
        async with self._telling:
            if self.is_open and not self._is_ending and self._number == number:
                await self._add(partitions)

    async def _add(self, partitions: Iterable[TopicPartition]) -> None:
        new = [partition for partition in partitions if partition not in self._partitions]
        if new and not self._raises:
            self._has_more = True
            producer_id, epoch = self._me
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in numbers_by_topic(new)
                ],
            )
            await self._ask(request, AddPartitionsToTxnResponse, "partitions cannot be added", NEWEST_TO_ADD)
        self._partitions |= dict.fromkeys(new)

    async def add_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], reader: Reader | str) -> None:
        """Have a group's offsets committed with the transaction. A `reader` is fenced as in any commit."""
        number = self.present()
        async with self._telling:
            if self.present() != number:
                raise TransactionFailedError("the transaction was ended while these offsets waited to be added")
            await self._add_offsets(offsets, reader)

    async def _add_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], reader: Reader | str) -> None:
        group_id, membership = (reader, OUTSIDER) if isinstance(reader, str) else reader.membership
        producer_id, epoch = self._me
        self._has_more = True
        try:
            if not self._raises:
                request = AddOffsetsToTxnRequest(
                    transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
                )
                await self._ask(request, AddOffsetsToTxnResponse, f"offsets of {group_id!r} cannot be added")
            await self._commit_offsets(group_id, membership, offsets)
        except BaseException as error:
            self.fail(error if isinstance(error, Exception) else TransactionFailedError("it was interrupted"))
            raise

    async def _commit_offsets(
        self, group_id: str, membership: Membership, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        producer_id, epoch = self._me
        commit = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=position.offset,
                            committed_leader_epoch=position.leader_epoch,
                            committed_metadata=position.metadata,
                        )
                        for index, position in rows.items()
                    ],
                )
                for name, rows in by_topic(offsets).items()
            ],
        )
        newest = COMMIT_ADDS if self._raises else COMMIT_ADDS - 1

        async def attempt() -> None:
            response = await self._cluster.to_coordinator(group_id, commit, TxnOffsetCommitResponse, newest)
            for topic in response.topics:
                for row in topic.partitions:
                    if row.error_code in COORDINATOR_MOVED:
                        self._cluster.forget_coordinator(group_id)
                    raise_for(row.error_code, f"offset of {topic.name}-{row.partition_index}")

        await self._cluster.retrying(attempt, timeout_ms=self._settings.max_block_ms)

    # -- its end ------------------------------------------------------------------------------------------------------

    def prepare(self) -> PreparedTransaction:
        """All records and offsets are there, and nothing more comes. Raises what stands against committing it."""
        self.present()
        if not self._settings.transaction_two_phase_commit_enable:
            raise TransactionStateError("to prepare transactions a producer needs transaction.two.phase.commit.enable")
        self._prepared = PreparedTransaction(*self._me)
        return self._prepared

    async def complete(self, decided: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is the one that was decided, abort any other; whether there was one
        to commit.
        """
        if not self.is_open:
            return False
        if self._prepared is None:
            raise TransactionStateError("the transaction is not prepared")
        commits = self._prepared == decided
        await self.end(commits=commits)
        return commits

    async def end(self, *, commits: bool) -> None:
        """May be repeated where it is not known whether it was done; the same end, then."""
        self._check_to_end()
        self._is_ending = True
        async with self._telling:
            self._check_to_end()
            await self._tell_of_the_end(commits)

    def _check_to_end(self) -> None:
        self._check_not_fenced()
        if not self.is_open:
            raise TransactionStateError("there is no open transaction to end")

    async def _tell_of_the_end(self, commits: bool) -> None:
        if self._partitions or self._has_more:
            self._may_be_committed |= commits
            await self._end(commits)
        if self.failure is not None and (not self._raises or self._sequences.identity is None):
            await self._identify(*self._me)
        self.is_open, self.failure, self._prepared, self._is_ending = False, None, None, False
        self._partitions, self._has_more, self._may_be_committed = {}, False, False

    async def close(self) -> None:
        """Abort what is open, so that no reader waits for its time-out, unless somebody else decides about it, or has
        decided already. What stands against that ends it later.
        """
        if self.is_open and self._prepared is None and not self._is_ending and self._fenced is None:
            with suppress(ClientError, KafkaError):
                await self.end(commits=False)

    async def _end(self, commits: bool) -> None:
        producer_id, epoch = self._me
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        newest = END_RAISES if self._raises else END_RAISES - 1
        try:
            response = await self._ask(request, EndTxnResponse, "the transaction cannot be ended", newest)
        except KafkaError as error:
            # What failed may have been the first thing that the coordinator was to hear of it.
            if self._may_be_committed or error.code != ErrorCode.INVALID_TXN_STATE or self.failure is None:
                raise
            return
        if self._raises:
            self._become(response.producer_id, response.producer_epoch)

    # -- the coordinator ----------------------------------------------------------------------------------------------

    @property
    def _me(self) -> tuple[int, int]:
        assert self._identity is not None, "it was initialized"
        return self._identity

    async def _ask(self, request: Message, answer: type[Answer], about: str, newest: int | None = None) -> Answer:
        """Of the coordinator, again while a refusal may pass. Raises ProducerFencedError, KafkaError, ClientError."""

        async def attempt() -> Answer:
            for _ in range(SHORT_PAUSES):
                response = await self._cluster.to_coordinator(
                    self._id, request, answer, newest, key_type=TRANSACTION_COORDINATOR
                )
                code = _first_error(response)
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    break
                await asyncio.sleep(SHORT_PAUSE_S)
            if code in COORDINATOR_MOVED:
                self._cluster.forget_coordinator(self._id, TRANSACTION_COORDINATOR)
            raise_for(code, about)
            return response

        try:
            return await self._cluster.retrying(attempt, timeout_ms=self._settings.max_block_ms, passing=_may_pass)
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION and isinstance(request, InitProducerIdRequest):
                raise TransactionStateError(NEEDS_VERSION) from error
            if error.code not in FENCED:
                raise
            self._fenced = ProducerFencedError(
                f"another producer has the transactional.id {self._id!r} now, or a transaction was open for longer "
                f"than transaction.timeout.ms ({self._settings.transaction_timeout_ms}) and was aborted: this "
                "producer has ended. Let one process have the id, or raise the time-out, and begin with a new producer"
            )
            raise self._fenced from error


def _first_error(response: Any) -> int:
    """Of an answer; where others have failed, a partition that was not tried tells nothing."""
    if not isinstance(response, AddPartitionsToTxnResponse):
        return int(response.error_code)
    codes = [
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
        if row.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED
    ]
    return max(codes, default=0)


def _may_pass(error: Exception) -> bool:
    return is_passing(error) or (isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
