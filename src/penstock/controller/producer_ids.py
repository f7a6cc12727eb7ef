"""AllocateProducerIds: blocks of producer ids, so that a broker hands out ids without asking (KIP-730)."""

from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.records import ProducerIdsRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


def decide_allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest, now_ms: int
) -> Decision[AllocateProducerIdsResponse]:
    """What the broker has not used of its block when it stops is never used."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        return _refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != request.broker_epoch:
        return _refused(ErrorCode.STALE_BROKER_EPOCH)
    first = state.image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision([record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE))


def _refused(code: ErrorCode) -> Decision[AllocateProducerIdsResponse]:
    return Decision([], AllocateProducerIdsResponse(error_code=code, producer_id_start=-1))
