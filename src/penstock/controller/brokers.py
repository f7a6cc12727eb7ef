"""Brokers tell that they live, and stop; partitions follow them (`moves`).

| event | broker becomes |
| --- | --- |
| heartbeat, saw its registration | unfenced |
| heartbeat, wants to be fenced | fenced |
| says that it is stopping, before | in controlled shutdown; it hands over what it leads (`hand_over_leader`) |
| heartbeat, wants to stop | in controlled shutdown, until others lead what they can and it and all know; then fenced |
| silence for `broker.session.timeout.ms` | fenced |
| heartbeat, has directories that are offline | as it was, without the leadership of what lies there (KIP-858) |

A broker whose directories are all offline can hold nothing and is fenced. The last broker of a cluster that stops is
not fenced before its session is over: no other broker should know, and it has less to do if it is back before that.
What a heartbeat says of the broker itself, that it lives and how far it has read, is soft state (`heartbeats`).
"""

from penstock.controller.decision import ControllerState, Decision
from penstock.controller.heartbeats import Going, Session
from penstock.controller.moves import finish, left_by, left_with, taken_by
from penstock.metadata.brokers import FENCE, UNFENCE
from penstock.metadata.features import CORDONED_LEVEL
from penstock.metadata.image import BrokerImage
from penstock.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def decide_broker_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    """The reply says what the broker is now."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
    if broker.epoch != request.broker_epoch:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    session = state.heartbeats.heard(broker.node_id, broker.epoch, request.current_metadata_offset, now_ms)
    decision = _decide(state, broker, session, request)
    decision.reply.is_caught_up = request.current_metadata_offset >= broker.epoch
    decision.records.extend(_cordoned(state, broker, request))
    return decision


def _cordoned(state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest) -> list[MetadataRecord]:
    """Notes the directories in which a broker wants no new replicas (KIP-1066)."""
    said = request.cordoned_log_dirs
    if said is None or state.image.metadata_version < CORDONED_LEVEL or tuple(said) == broker.cordoned_directories:
        return []
    change = _change(broker)
    change.cordoned_log_dirs = list(said)
    return [change]


def fence_silent_broker(state: ControllerState, now_ms: int) -> list[MetadataRecord]:
    """Empty if no broker has been silent for too long."""
    broker_id = state.heartbeats.silent_broker(state.image, now_ms)
    return [] if broker_id is None else _fence(state, state.image.brokers[broker_id])


def begin_to_stop(broker: BrokerImage) -> list[MetadataRecord]:
    """The broker still leads all that it has led."""
    return [] if broker.fenced or broker.in_controlled_shutdown else [_change(broker, in_controlled_shutdown=1)]


def _decide(
    state: ControllerState, broker: BrokerImage, session: Session, request: BrokerHeartbeatRequest
) -> Decision[BrokerHeartbeatResponse]:
    if request.want_shut_down:
        return _stop(state, broker, session)
    if request.want_fence or not _has_directory(broker, request):
        records = [] if broker.fenced else _fence(state, broker)
        return Decision(records, BrokerHeartbeatResponse(is_fenced=True))
    if broker.fenced:
        return _come(state, broker, session)
    if request.offline_log_dirs:
        return _lose_directories(state, broker, request)
    return Decision([], BrokerHeartbeatResponse(is_fenced=False))


def _come(state: ControllerState, broker: BrokerImage, session: Session) -> Decision[BrokerHeartbeatResponse]:
    """Unfences a broker that has seen its own registration, once it and all its partitions know that it was away."""
    if session.metadata_offset < broker.epoch:
        return Decision([], BrokerHeartbeatResponse(is_fenced=True))
    if broker.node_id in state.heartbeats.unfinished:
        records = finish(state, broker.node_id)
        if records:
            return Decision(records, BrokerHeartbeatResponse(is_fenced=True))
    if not state.heartbeats.knows(session, broker):
        return Decision([], BrokerHeartbeatResponse(is_fenced=True))
    state.heartbeats.comes(broker.node_id)
    unfence = _change(broker, fenced=UNFENCE)
    return Decision([unfence, *taken_by(state, broker.node_id)], BrokerHeartbeatResponse(is_fenced=False))


def _stop(state: ControllerState, broker: BrokerImage, session: Session) -> Decision[BrokerHeartbeatResponse]:
    """Takes from a broker what others can lead, and lets it go when it and they have heard of it."""
    if broker.fenced:
        return _let_go(state, broker, [])
    records = left_by(state, broker.node_id, Going.STOPPING)
    if records:
        records[:0] = begin_to_stop(broker)
        session.shutdown_offset = state.next_offset + len(records) - 1
    until = session.shutdown_offset
    knows_itself = session.metadata_offset >= until  # a fenced broker must not answer as a leader any more
    if records or not knows_itself or not state.heartbeats.seen_by(state.image, until, state.image.brokers):
        return Decision(records, BrokerHeartbeatResponse(is_fenced=False))
    if any(not other.fenced for other in state.image.brokers.values() if other is not broker):
        return _let_go(state, broker, _fence(state, broker, in_controlled_shutdown=1))
    return Decision(begin_to_stop(broker), BrokerHeartbeatResponse(is_fenced=False, should_shut_down=True))


def _let_go(
    state: ControllerState, broker: BrokerImage, records: list[MetadataRecord]
) -> Decision[BrokerHeartbeatResponse]:
    state.heartbeats.forget(broker.node_id)
    return Decision(records, BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True))


def _lose_directories(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> Decision[BrokerHeartbeatResponse]:
    """Takes the leadership of what lies in directories that went offline."""
    state.heartbeats.lacks_directories(broker.node_id)
    lost = [directory for directory in broker.directories if directory in request.offline_log_dirs]
    if not lost:
        return Decision([], BrokerHeartbeatResponse(is_fenced=False))
    change = _change(broker)
    change.log_dirs = [directory for directory in broker.directories if directory not in lost]
    return Decision([change, *left_with(state, broker.node_id, lost)], BrokerHeartbeatResponse(is_fenced=False))


def _has_directory(broker: BrokerImage, request: BrokerHeartbeatRequest) -> bool:
    return not broker.directories or any(item not in request.offline_log_dirs for item in broker.directories)


def _fence(state: ControllerState, broker: BrokerImage, *, in_controlled_shutdown: int = 0) -> list[MetadataRecord]:
    change = _change(broker, fenced=FENCE, in_controlled_shutdown=in_controlled_shutdown)
    records = [change, *left_by(state, broker.node_id, Going.FENCED)]
    state.heartbeats.loses(broker.node_id, state.next_offset + len(records) - 1)
    return records


def _change(broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
