"""The coordinator of a transaction is asked before a producer's first batch in it is appended (KIP-890).

So no batch that comes late begins a transaction that nobody will end: a consumer of committed records would wait
behind it for ever. A producer of version 2 of transactions leaves it to the broker to add the partition; one of an
older version has added it itself, and the coordinator only says whether.

| answer of the coordinator                    | what the producer hears                                          |
| -------------------------------------------- | ---------------------------------------------------------------- |
| NONE                                         | the batch is appended                                            |
| PRODUCER_FENCED                              | INVALID_PRODUCER_EPOCH                                           |
| TRANSACTION_ABORTABLE                        | the same, from Produce 11 on; INVALID_TXN_STATE before           |
| CONCURRENT_TRANSACTIONS                      | the same, from Produce 12 on; NOT_ENOUGH_REPLICAS before         |
| it is being read, elsewhere, or nobody knows | NOT_ENOUGH_REPLICAS: producers try again and ask nobody where to |
| OPERATION_NOT_ATTEMPTED: another one was bad | the same                                                         |
| another error                                | the same                                                         |

A marker that comes before the answer voids it (`Producers.verify`): INVALID_TXN_STATE; or, from Produce 12 on, the
coordinator is asked again, `MOST_TRIES` times in all. There it is mostly the marker of the transaction before, for
which the coordinator has waited with its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from penstock.coordinator.effects import ToLeader
from penstock.log.producer_state import Producers, Verification
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.value import Value


class Knows(IntEnum):
    """What the client of a request knows of transactions, by the request's version."""

    OLD_ERRORS = 0
    ABORTABLE = 1
    """It knows TRANSACTION_ABORTABLE."""
    EPOCHS_RISE = 2
    """It has each broker add its partitions, and gets a new epoch with each transaction."""


MOST_TRIES: Final = 3
_TO_TRY_AGAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


class Asking(Value):
    """A producer's transaction, and what its client knows of them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    knows: Knows


class Asked:
    """What is to be verified for one partition, from the request to the append."""

    __slots__ = ("_partition", "_producer_id", "_producers", "_verification")

    def __init__(self, partition: Partition, asking: Asking, sequence: int) -> None:
        self._partition = partition
        self._producer_id = asking.producer_id
        self._producers: Producers = partition.log.producers
        self._verification: Verification = self._producers.verify(
            asking.producer_id, asking.producer_epoch, sequence, expects_zero=asking.knows is Knows.EPOCHS_RISE
        )

    def answered(self, code: ErrorCode) -> None:
        """The log takes the batch until `over`, if the answer was good."""
        self._producers.verified(self._producer_id, self._verification, is_good=code is ErrorCode.NONE)

    def over(self) -> None:
        self._producers.no_longer_verified(self._producer_id, self._verification)

    def may_be_asked_again(self, asking: Asking, code: ErrorCode) -> bool:
        """Whether a marker has come before a good answer, and it can only be that of the transaction before.

        Where epochs rise, a coordinator says no more that a transaction is open which has ended meanwhile.
        """
        return code is ErrorCode.NONE and asking.knows is Knows.EPOCHS_RISE and not self._verification.is_verified

    @property
    def voided(self) -> KafkaError:
        """Why a batch with a good answer is refused all the same."""
        if self._partition.log.producers is not self._producers:  # the log was read in anew
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction has to be verified once more")
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended")


async def answers_of(
    broker: Broker, asking: Asking, partitions: Iterable[tuple[str, int]]
) -> Mapping[tuple[str, int], ErrorCode]:
    """For each partition NONE or the error for the client."""
    wanted = list(dict.fromkeys(partitions))
    if not broker.config.transaction_partition_verification_enable and asking.knows is not Knows.EPOCHS_RISE:
        return dict.fromkeys(wanted, ErrorCode.NONE)
    try:
        response = await broker.groups.context.errands.done(_job(broker, asking, wanted))
    except KafkaError as error:
        return dict.fromkeys(wanted, _told(error.code, asking.knows))
    if response.error_code:
        return dict.fromkeys(wanted, _told(_of_all(ErrorCode(response.error_code)), asking.knows))
    codes = {
        (topic.name, result.partition_index): _told(ErrorCode(result.partition_error_code), asking.knows)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for result in topic.results_by_partition
    }
    return {partition: codes.get(partition, ErrorCode.INVALID_TXN_STATE) for partition in wanted}


def _job(broker: Broker, asking: Asking, wanted: list[tuple[str, int]]) -> ToLeader:
    """Raises KafkaError where nobody coordinates transactions yet."""
    state = broker.image.topics.get(TRANSACTION_STATE)
    if state is None or not state.partitions:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    topics: dict[str, list[int]] = {}
    for topic, index in wanted:
        topics.setdefault(topic, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=asking.transactional_id,
        producer_id=asking.producer_id,
        producer_epoch=asking.producer_epoch,
        verify_only=asking.knows is not Knows.EPOCHS_RISE,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
    return ToLeader(
        TRANSACTION_STATE,
        coordinator_partition(asking.transactional_id, len(state.partitions)),
        AddPartitionsToTxnRequest(transactions=[transaction]),
        AddPartitionsToTxnResponse,
    )


def _of_all(code: ErrorCode) -> ErrorCode:
    """A client is not to hear that this node has no right."""
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code


def _told(code: ErrorCode, knows: Knows) -> ErrorCode:
    if code in _TO_TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and knows is not Knows.EPOCHS_RISE):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and knows is Knows.OLD_ERRORS:
        return ErrorCode.INVALID_TXN_STATE
    return code
