"""Brokers register, tell that they live, and go; partitions follow them.

| event | broker becomes | partitions that it is in sync with |
| --- | --- | --- |
| registers, first time | fenced | – |
| registers after a clean stop | fenced, with a new epoch | led by another replica in sync, if there is one |
| registers after a crash | fenced, with a new epoch | the same; what stays with it gets a new leader epoch |
| heartbeat, saw its registration | unfenced | it leads those that nobody leads |
| heartbeat, wants to be fenced | fenced | led by another replica in sync, else by nobody |
| heartbeat, wants to stop | in controlled shutdown | led by another replica in sync; it stops when all moved |

A crash may have lost the end of a log that nobody else has, so the same offsets will hold other records; the new leader
epoch is how readers can tell (KIP-320). Whether a stop was clean, a broker tells by its previous epoch (KIP-966).
These commands touch each partition of the broker and are as rare as restarts.
"""

from collections.abc import Iterator
from uuid import UUID

from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.brokers import FENCE, UNFENCE
from penstock.metadata.image import NOBODY, BrokerImage, ClusterImage, PartitionImage
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

METADATA_VERSION_FEATURE = "metadata.version"


def decide_broker_registration(
    state: ControllerState, request: BrokerRegistrationRequest, now_ms: int
) -> Decision[BrokerRegistrationResponse]:
    """Registers a broker. Its epoch is the offset that its record will have."""
    problem = _registration_problem(state.image, request)
    if problem is not None:
        return Decision([], BrokerRegistrationResponse(error_code=problem))
    before = state.image.brokers.get(request.broker_id)
    if before is not None and before.incarnation_id == request.incarnation_id:
        return Decision([], BrokerRegistrationResponse(broker_epoch=before.epoch))  # it asked twice
    records: list[MetadataRecord] = [_registration(request, state.next_offset)]
    if before is not None:
        crashed = request.previous_broker_epoch != before.epoch
        records += _taken_from(state.image, request.broker_id, keeps_last=True, new_epoch=crashed)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=state.next_offset))


def decide_broker_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    """Moves a broker towards what it wants, and tells it how far that is."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
    if broker.epoch != request.broker_epoch:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    caught_up = request.current_metadata_offset >= broker.epoch
    if request.want_shut_down:
        return _stopping(state.image, broker, caught_up)
    if request.want_fence and not broker.fenced:
        return _fenced(state.image, broker, caught_up)
    if broker.fenced and caught_up and not request.want_fence:
        return _unfenced(state.image, broker)
    return Decision([], BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced))


def _registration_problem(image: ClusterImage, request: BrokerRegistrationRequest) -> ErrorCode | None:
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.broker_id < 0 or not request.listeners:
        return ErrorCode.INVALID_REGISTRATION
    supported = {feature.name: feature for feature in request.features}
    for name, level in image.features.items():
        feature = supported.get(name)
        if feature is not None and not feature.min_supported_version <= level <= feature.max_supported_version:
            return ErrorCode.UNSUPPORTED_VERSION
        if feature is None and name == METADATA_VERSION_FEATURE:
            return ErrorCode.UNSUPPORTED_VERSION
    return None


def _registration(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol)
            for item in request.listeners
        ],
        features=[
            BrokerFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _stopping(image: ClusterImage, broker: BrokerImage, caught_up: bool) -> Decision[BrokerHeartbeatResponse]:
    moves = list(_taken_from(image, broker.node_id, keeps_last=True, new_epoch=False))
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(_change(broker, in_controlled_shutdown=1))
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced, should_shut_down=not moves)
    return Decision(records + moves, reply)


def _fenced(image: ClusterImage, broker: BrokerImage, caught_up: bool) -> Decision[BrokerHeartbeatResponse]:
    moves = _taken_from(image, broker.node_id, keeps_last=False, new_epoch=True)
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=True)
    return Decision([_change(broker, fenced=FENCE), *moves], reply)


def _unfenced(image: ClusterImage, broker: BrokerImage) -> Decision[BrokerHeartbeatResponse]:
    orphans = [
        PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=broker.node_id)
        for topic_id, index, partition in _partitions(image)
        if partition.leader == NOBODY and broker.node_id in partition.isr
    ]
    reply = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    return Decision([_change(broker, fenced=UNFENCE), *orphans], reply)


def _change(broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _taken_from(image: ClusterImage, broker_id: int, *, keeps_last: bool, new_epoch: bool) -> Iterator[MetadataRecord]:
    """Takes a broker out of the replicas in sync, and its leadership with it, wherever another one can have it.

    Where it is the last in sync it stays in sync, for nobody else has all records. There it goes on leading if
    `keeps_last`, from a new leader epoch on if `new_epoch`; otherwise nobody leads.
    """
    for topic_id, index, partition in _partitions(image):
        if broker_id not in partition.isr:
            continue
        successor = next((other for other in _others(partition, broker_id) if image.brokers[other].active), None)
        change = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
        if successor is not None:
            change.isr = [other for other in partition.isr if other != broker_id]
            if partition.leader == broker_id:
                change.leader = successor
        elif partition.leader == broker_id and new_epoch:
            change.leader = broker_id if keeps_last else NOBODY
        else:
            continue
        yield change


def _others(partition: PartitionImage, broker_id: int) -> Iterator[int]:
    """The other replicas in sync, the preferred leader first."""
    return (other for other in partition.replicas if other != broker_id and other in partition.isr)


def _partitions(image: ClusterImage) -> Iterator[tuple[UUID, int, PartitionImage]]:
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            yield topic.topic_id, index, partition
