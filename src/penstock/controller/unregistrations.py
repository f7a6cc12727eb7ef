"""Nodes leave the cluster for good: what brokers and controllers have registered is forgotten."""

from penstock.controller.decision import ControllerState, Decision
from penstock.controller.heartbeats import Going
from penstock.controller.moves import left_by
from penstock.metadata.features import CONTROLLER_UNREGISTRATION_LEVEL, METADATA_VERSION
from penstock.metadata.records import UnregisterBrokerRecord, UnregisterControllerRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)


def decide_unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest, now_ms: int
) -> Decision[UnregisterBrokerResponse]:
    """The broker is gone for good (KIP-631). One that still lives has to register anew; within its lease it may act as
    the leader of what it has led, so nobody else leads that yet.
    """
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        message = f"There is no broker {request.broker_id}"
        reply = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
        return Decision([], reply)
    if state.settings.leases and not broker.fenced and state.heartbeats.is_alive(broker.node_id, broker.epoch, now_ms):
        message = f"Broker {broker.node_id} lives, and leads within its lease: stop it before"
        return Decision([], UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message))
    moves = left_by(state, broker.node_id, Going.FENCED)
    state.heartbeats.unregistered(broker.node_id)
    gone = UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
    return Decision([*moves, gone], UnregisterBrokerResponse(error_message=None))


def decide_unregister_controller(
    state: ControllerState, request: UnregisterControllerRequest, now_ms: int
) -> Decision[UnregisterControllerResponse]:
    """The controller is gone for good (KIP-1312). One that still lives has to register anew, and a voter stays."""
    controller_id = request.controller_id
    if state.image.metadata_version < CONTROLLER_UNREGISTRATION_LEVEL:
        code = ErrorCode.UNSUPPORTED_VERSION
        message = f"controllers are unregistered from level {CONTROLLER_UNREGISTRATION_LEVEL} of {METADATA_VERSION} on"
    elif state.quorum.voter(controller_id) is not None:
        code = ErrorCode.INVALID_REQUEST
        message = f"Controller {controller_id} is a voter of the metadata quorum: remove it from the voters first"
    elif controller_id not in state.image.controllers:
        code, message = ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller {controller_id} is not registered"
    else:
        gone = UnregisterControllerRecord(controller_id=controller_id)
        return Decision([gone], UnregisterControllerResponse())
    return Decision([], UnregisterControllerResponse(error_code=code, error_message=message))
