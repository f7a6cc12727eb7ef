"""Nodes join the cluster: registration of brokers and of controllers.

A broker registers with a new incarnation id at each start of its process. Its epoch is the offset of the record that
registers it; it is fenced until a heartbeat says that it has seen this record. While another incarnation holds the id,
that is until its session has run out, a second one is refused (DUPLICATE_BROKER_REGISTRATION) — unless the first one is
on its way out, was an earlier life of the controller's own process, or cannot live any more, because the second one has
its directory and its addresses and began later. The ids of our processes tell when they began: a registration that was
delayed on its way, and whose process is dead, is not taken for a successor's.

Registering again under the same incarnation amends what the broker said, and leaves epoch and fence as they are.
Whether the stop before was clean, a broker tells by its previous epoch (KIP-966). After a crash it is not eligible any
more, from its registration on: one that was in very many partitions has to ask again until all of them know.
"""

from collections.abc import Mapping, Sequence

from penstock.controller.decision import ControllerState, Decision
from penstock.controller.eligible_leaders import keeps_track
from penstock.controller.heartbeats import Going
from penstock.controller.moves import left_by, lost_before
from penstock.metadata.brokers import Feature, broker_record, controller_record
from penstock.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    beyond,
)
from penstock.metadata.image import BrokerImage, ClusterImage
from penstock.metadata.records import (
    MetadataRecord,
    NodeEndpoint,
    NodeFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.metadata.topics import is_reserved
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.protocol.uuids import began_ms


def decide_broker_registration(
    state: ControllerState, request: BrokerRegistrationRequest, now_ms: int
) -> Decision[BrokerRegistrationResponse]:
    """Its epoch is the offset that its record will have."""
    before = state.image.brokers.get(request.broker_id)
    problem = _registration_problem(state, request, before, now_ms)
    if problem is not None:
        return Decision([], BrokerRegistrationResponse(error_code=problem))
    if before is not None and before.incarnation_id == request.incarnation_id:
        return _amended(state, request, before, now_ms)
    was_clean = before is not None and request.previous_broker_epoch == before.epoch
    unfinished = [] if was_clean else lost_before(state, request.broker_id)
    if unfinished:
        return Decision(unfinished, BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    epoch = state.next_offset
    records: list[MetadataRecord] = [_registration(request, epoch, before)]
    if before is not None or keeps_track(state.image):
        records += left_by(state, request.broker_id, Going.BACK if was_clean else Going.BACK_AFTER_CRASH)
    state.heartbeats.registered(request.broker_id, epoch, now_ms)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def decide_controller_registration(
    state: ControllerState, request: ControllerRegistrationRequest, now_ms: int
) -> Decision[ControllerRegistrationResponse]:
    """Says where the controller listens, and what it supports (KIP-919)."""
    if state.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        message = f"controllers register from level {CONTROLLER_REGISTRATION_LEVEL} of {METADATA_VERSION} on"
        return Decision([], _refused(ErrorCode.UNSUPPORTED_VERSION, message))
    if request.controller_id < 0 or not request.listeners:
        return Decision([], _refused(ErrorCode.INVALID_REGISTRATION, "a controller has an id and a listener"))
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=_endpoints(request),
        features=_features(request),
    )
    before = state.image.controllers.get(request.controller_id)
    is_known = before is not None and controller_record(before) == record
    return Decision([] if is_known else [record], ControllerRegistrationResponse(error_message=None))


def _refused(code: ErrorCode, message: str) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=code, error_message=message)


def _amended(
    state: ControllerState, request: BrokerRegistrationRequest, before: BrokerImage, now_ms: int
) -> Decision[BrokerRegistrationResponse]:
    record = _registration(request, before.epoch, before)
    record.fenced, record.in_controlled_shutdown = before.fenced, before.in_controlled_shutdown
    state.heartbeats.registered(before.node_id, before.epoch, now_ms)
    is_known = record == broker_record(before)  # it asked twice
    return Decision([] if is_known else [record], BrokerRegistrationResponse(broker_epoch=before.epoch))


def _registration_problem(
    state: ControllerState, request: BrokerRegistrationRequest, before: BrokerImage | None, now_ms: int
) -> ErrorCode | None:
    if request.cluster_id != state.image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if before is not None and _is_held(state, before, now_ms) and not _took_its_place(before, request):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if request.broker_id < 0 or not request.listeners or not _has_good_directories(state.image, request):
        return ErrorCode.INVALID_REGISTRATION
    runs_at = {one.name: Feature(one.min_supported_version, one.max_supported_version) for one in request.features}
    # What this software does not know, as a directory of Kafka's may have it, no broker of its has to know.
    is_beyond = any(name in runs_at or name in SUPPORTED_FEATURES for name in beyond(state.image.features, runs_at))
    return ErrorCode.UNSUPPORTED_VERSION if is_beyond else None


def _is_held(state: ControllerState, broker: BrokerImage, now_ms: int) -> bool:
    """Whether a living incarnation holds it and means to keep it."""
    is_alive = state.heartbeats.is_alive(broker.node_id, broker.epoch, now_ms)
    return is_alive and not broker.in_controlled_shutdown


def _took_its_place(broker: BrokerImage, request: BrokerRegistrationRequest) -> bool:
    """Whether the other incarnation is the newcomer, or began earlier and has lost its directory and addresses to it.

    A process has its directories locked and its addresses bound for as long as it lives. Kafka waits for the session of
    the dead one to run out all the same; a copy of a directory on another machine has to wait here as well.
    """
    if broker.incarnation_id == request.incarnation_id:
        return True
    known_since_ms, since_ms = began_ms(broker.incarnation_id), began_ms(request.incarnation_id)
    if known_since_ms is None or since_ms is None or since_ms < known_since_ms:
        return False
    endpoints = {item.name: (item.host, item.port) for item in request.listeners}
    known = {name: (endpoint.host, endpoint.port) for name, endpoint in broker.endpoints.items()}
    return endpoints == known and any(directory in broker.directories for directory in request.log_dirs)


def _has_good_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> bool:
    """Each is named once, and by no other broker (KIP-858)."""
    named = dict.fromkeys(request.log_dirs)
    if len(named) != len(request.log_dirs) or any(map(is_reserved, named)):
        return False
    others = (broker for broker in image.brokers.values() if broker.node_id != request.broker_id)
    return not any(directory in named for broker in others for directory in broker.directories)


def _registration(request: BrokerRegistrationRequest, epoch: int, before: BrokerImage | None) -> RegisterBrokerRecord:
    """What was cordoned stays so until the broker says what is."""
    cordoned = None if before is None else before.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=_endpoints(request),
        features=_features(request),
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _endpoints(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol)
        for item in request.listeners
    ]


def runs_at(image: ClusterImage) -> Sequence[tuple[str, Mapping[str, Feature]]]:
    """The levels of features of all nodes that are registered."""
    nodes = [(f"broker {broker.node_id}", broker.features) for broker in image.brokers.values()]
    nodes += [(f"controller {controller.node_id}", controller.features) for controller in image.controllers.values()]
    return nodes


def _features(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> list[NodeFeature]:
    return [
        NodeFeature(
            name=item.name,
            min_supported_version=item.min_supported_version,
            max_supported_version=item.max_supported_version,
        )
        for item in request.features
    ]
