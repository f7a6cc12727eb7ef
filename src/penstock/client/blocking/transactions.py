"""Transactions without an event loop: who writes, what belongs to one, its end, and which are open.

All is asked in the way of transaction.version 1, which every cluster understands: partitions are added before records
go there, and the epoch is raised with each `begin`. So a producer's id and epoch name one transaction.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from penstock.client.blocking import BlockingCluster, TopicPartition
from penstock.client.blocking.connection import BlockingConnection
from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.errors import raise_for
from penstock.client.messages import TRANSACTION_COORDINATOR
from penstock.client.values import TransactionName, numbers_by_topic
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

TWO_PHASES_SINCE: Final = 6
"""InitProducerId of brokers that keep prepared transactions (KIP-939)."""
PATTERNS_SINCE: Final = 2
"""ListTransactions that takes a pattern (KIP-1152)."""
SHORT_PAUSES, SHORT_PAUSE_S = 50, 0.02
"""While the markers of the last transaction are written, which takes moments."""
ONGOING: Final = "Ongoing"
WITHOUT_TIMEOUT_MS: Final = 2**31 - 1
IDS_AT_ONCE: Final = 500
NOT_ITS_OWN: Final = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
"""Answers to an end that has come too late: the transaction has ended in the other way."""

Response = TypeVar("Response", bound=Message)


class TransactionCoordinators:
    """Asks for a cluster's transactions. Not safe for threads."""

    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster

    def begin(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """Be the producer of that id. What the one before has left open is aborted."""
        return self._begun(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))

    def begin_kept(self, transactional_id: str) -> ProducerIdentity | None:
        """The same, and what is written is kept until it is decided about (KIP-939); None if the cluster does not."""

        def served() -> int:
            coordinator = self._cluster.coordinator_of(transactional_id, TRANSACTION_COORDINATOR)
            return coordinator.version_of(ApiKey.INIT_PRODUCER_ID, TWO_PHASES_SINCE)

        if self._cluster.retried(served) < TWO_PHASES_SINCE:
            return None
        try:
            return self._begun(
                InitProducerIdRequest(transactional_id=transactional_id, enable2_pc=True), TWO_PHASES_SINCE
            )
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:  # its transaction.version is below 2
                raise
            return None

    def _begun(self, request: InitProducerIdRequest, version: int | None = None) -> ProducerIdentity:
        name = request.transactional_id or ""
        response = self._asked(name, ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse, version=version)
        about = f"beginning as {name!r}"
        if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            about += (
                f": {request.transaction_timeout_ms} ms (kafka.transaction.timeout.ms) are more than the brokers' "
                "transaction.max.timeout.ms"
            )
        raise_for(response.error_code, about)
        return ProducerIdentity(response.producer_id, response.producer_epoch, name)

    def add(self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        """Before records go there. Those that are in the transaction already are not asked about."""
        new = [partition for partition in partitions if partition not in identity.added]
        if not new:
            return
        assert identity.transactional_id is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in numbers_by_topic(new)
            ],
        )
        response = self._asked(
            identity.transactional_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            request,
            AddPartitionsToTxnResponse,
            code_of=_first_refusal,
        )
        raise_for(_first_refusal(response), f"partitions for the transaction of {identity.transactional_id!r}")
        identity.added.update(dict.fromkeys(new))

    def end(self, name: TransactionName, *, commits: bool, limit_ms: int | None = None) -> bool | None:
        """Whether it has ended so, now or before; False where it has ended in the other way. It is tried for
        `limit_ms`, if that is less than the cluster's limit.

        Where the id is forgotten (transactional.id.expiration.ms) nobody knows: None. Of one that is kept it was
        carried out: it is never ended in another way.
        """
        request = EndTxnRequest(
            transactional_id=name.transactional_id,
            producer_id=name.producer_id,
            producer_epoch=name.epoch,
            committed=commits,
        )
        response = self._asked(name.transactional_id, ApiKey.END_TXN, request, EndTxnResponse, limit_ms=limit_ms)
        if response.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return True if name.is_kept else None
        if response.error_code in NOT_ITS_OWN:
            return False
        raise_for(response.error_code, f"the end of the transaction of {name.transactional_id!r}")
        return True

    def open_ones(self, prefix: str, asked_for: Collection[TransactionName] = ()) -> list[TransactionName]:
        """Ongoing transactions whose ids begin so.

        What moves to another coordinator meanwhile, or lies at one that does not know yet that it has it, is in no
        broker's list. So the coordinators of those that are asked for say whether these are among them.
        """

        found = self._cluster.retried(lambda: self._in_lists(prefix))
        unseen = [name for name in asked_for if name not in found]
        return found + [name for name in unseen if name in self._described_by_coordinator(name.transactional_id)]

    def all_open(self, prefix: str) -> list[TransactionName]:
        """The same, and none is missing: before the lists and behind them each coordinator's partition is where it was.

        As the lists are, where the user may not know how many partitions there are (DESCRIBE on the internal topic).
        """

        partitions = self._cluster.partitions_there([TRANSACTION_STATE]).get(TRANSACTION_STATE, ())
        probes = _id_of_each_partition(f"{prefix}nobody-", len(partitions))

        def attempt() -> list[TransactionName]:
            before = self._holders(probes)
            found = self._in_lists(prefix)
            if self._holders(probes) != before:
                raise_for(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions move between coordinators")
            return found

        return self._cluster.retried(attempt)

    def _in_lists(self, prefix: str) -> list[TransactionName]:
        self._cluster.look_at_brokers()
        found = []
        for broker in self._cluster.metadata.brokers.values():
            connection = self._cluster.connection(broker.address)
            names = _listed(connection, prefix)
            for start in range(0, len(names), IDS_AT_ONCE):
                found += _described(connection, names[start : start + IDS_AT_ONCE])
        return found

    def _holders(self, ids: Collection[str]) -> set[tuple[str, Address]]:
        """Ids that nobody has, with each broker that says so: their coordinator, or who believes that it still is.

        KafkaError where there is none.
        """
        request, held = DescribeTransactionsRequest(transactional_ids=list(ids)), set[tuple[str, Address]]()
        self._cluster.look_at_brokers()
        for broker in self._cluster.metadata.brokers.values() if ids else ():
            connection = self._cluster.connection(broker.address)
            response = connection.request(ApiKey.DESCRIBE_TRANSACTIONS, request, DescribeTransactionsResponse)
            for state in response.transaction_states:
                if state.error_code in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                    held.add((state.transactional_id, broker.address))
        if len({name for name, _ in held}) < len(ids):
            raise_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, "some transactions have no coordinator for now")
        return held

    def _described_by_coordinator(self, transactional_id: str) -> list[TransactionName]:
        """Its transaction, if it is open."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = self._asked(
            transactional_id,
            ApiKey.DESCRIBE_TRANSACTIONS,
            request,
            DescribeTransactionsResponse,
            code_of=lambda response: response.transaction_states[0].error_code,
        )
        return _open_among(response)

    def _asked(
        self,
        transactional_id: str,
        key: ApiKey,
        request: Message,
        answer: type[Response],
        *,
        version: int | None = None,
        code_of: Callable[[Any], int] = lambda response: response.error_code,
        limit_ms: int | None = None,
    ) -> Response:
        """What the coordinator says, when it is no error that may pass."""

        def attempt() -> Response:
            for _ in range(SHORT_PAUSES):
                coordinator = self._cluster.coordinator_of(transactional_id, TRANSACTION_COORDINATOR)
                response = coordinator.request(key, request, answer, version)
                code = code_of(response)
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    break
                time.sleep(SHORT_PAUSE_S)
            if code and KafkaError(ErrorCode(code)).retriable:
                raise_for(code, f"transactional id {transactional_id!r}")
            return response

        return self._cluster.retried(attempt, limit_ms)


def _first_refusal(response: AddPartitionsToTxnResponse) -> int:
    """Where others have failed, a partition that was not tried tells nothing."""
    codes = [
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
        if row.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED
    ]
    return max(codes, default=0)


def _id_of_each_partition(prefix: str, count: int) -> list[str]:
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == count:
            break
        found.setdefault(coordinator_partition(f"{prefix}{number}", count), f"{prefix}{number}")
    return list(found.values())


def _listed(connection: BlockingConnection, prefix: str) -> list[str]:
    takes_patterns = connection.version_of(ApiKey.LIST_TRANSACTIONS) >= PATTERNS_SINCE
    request = ListTransactionsRequest(
        state_filters=[ONGOING], transactional_id_pattern=f"{re.escape(prefix)}.*" if takes_patterns else None
    )
    response = connection.request(ApiKey.LIST_TRANSACTIONS, request, ListTransactionsResponse)
    raise_for(response.error_code, "listing transactions")
    names = [it.transactional_id for it in response.transaction_states if it.transaction_state == ONGOING]
    return [name for name in names if name.startswith(prefix)]


def _described(connection: BlockingConnection, names: Collection[str]) -> list[TransactionName]:
    request = DescribeTransactionsRequest(transactional_ids=list(names))
    return _open_among(connection.request(ApiKey.DESCRIBE_TRANSACTIONS, request, DescribeTransactionsResponse))


def _open_among(response: DescribeTransactionsResponse) -> list[TransactionName]:
    found = []
    for it in response.transaction_states:
        if it.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            continue
        raise_for(it.error_code, f"the transaction of {it.transactional_id!r}")
        if it.transaction_state == ONGOING:
            is_kept = it.transaction_timeout_ms == WITHOUT_TIMEOUT_MS
            found.append(TransactionName(it.transactional_id, it.producer_id, it.producer_epoch, is_kept))
    return found
