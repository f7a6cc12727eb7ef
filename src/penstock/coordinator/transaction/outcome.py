"""What a transactional request is answered with, whichever it is."""

from penstock.coordinator.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID, Producer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.value import Value


class Outcome(Value):
    """The producer with which the client goes on, where the request has one to tell; `kept` is the one whose
    transaction it is to end (KIP-939).
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    kept: Producer | None = None
