"""InitProducerId 0-5 (6 if configured): an id for an idempotent producer, or who a transactional one is from now on.

A producer without a transactional id gets a new id with epoch 0 each time, whatever it had before.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import IDEMPOTENT_WRITE, TWO_PHASE_COMMIT, WRITE_TOPIC, WRITE_TRANSACTION
from penstock.node.serving.handler import RequestContext, handles, later
from penstock.node.serving.rules import Whole
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.requests.api import ApiKey

FIRST_EPOCH = 0
TWO_PHASES_SINCE: Final = 6
"""With `transaction.two.phase.commit.enable`: Kafka has this version on paper, and does not tell clients of it."""
_init_transactions: Final = later("penstock.node.api.transactions.init_transactions")


def _transactional_id(request: InitProducerIdRequest) -> tuple[str, ...]:
    return () if request.transactional_id is None else (request.transactional_id,)


def _idempotent(request: InitProducerIdRequest) -> tuple[str, ...]:
    return (CLUSTER_NAME,) if request.transactional_id is None else ()


def _decided_elsewhere(request: InitProducerIdRequest) -> tuple[str, ...]:
    return _transactional_id(request) if request.enable2_pc else ()


RULE: Final = (
    Whole(WRITE_TRANSACTION, _transactional_id, words="with a transactional id"),
    Whole(TWO_PHASE_COMMIT, _decided_elsewhere, words="whose transactions are decided elsewhere"),
    Whole(IDEMPOTENT_WRITE, _idempotent, or_any=WRITE_TOPIC, words="without one"),
)


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), rule=RULE)
def init_producer_id(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> Any:
    """Answers at once from this broker's block of ids, or when the controller has given it one."""
    if request.transactional_id is not None:
        return _init_transactions(broker, context, request)
    producer_id = broker.take_producer_id()
    return _later(broker) if producer_id is None else _given(producer_id)


async def _later(broker: Broker) -> InitProducerIdResponse:
    try:
        return _given(await broker.new_producer_id())
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)
