"""HandOverLeader: a leader has everything with its successor, holds what arrives, and lays leadership down.

It may do so with the one partition that the balancer has offered it, fenced as in AlterPartition: by the broker's
epoch, and by the leader epoch and the partition epoch that it knows. One record moves the leadership.

A broker that says that it is stopping is on its way out from then on, as if its heartbeat had said so, but that nothing
is taken from it yet: it hands over what it leads, each partition to a successor that it names, and leaves the ISR with
that. What it still leads when its heartbeat says that it wants to stop, it loses by an election.

A broker whose disk has no room for what is produced to a partition hands that one over to a successor that it names,
whatever the balancer does, and leaves the ISR with that as well: it cannot have what comes next.
"""

from penstock.controller.brokers import begin_to_stop
from penstock.controller.decision import ControllerState, Decision
from penstock.controller.partition_change import Electorate, Wanted, changed
from penstock.leadership.balancer import Move
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import HandOverLeaderRequest, HandOverLeaderResponse


def decide_hand_over_leader(
    state: ControllerState, request: HandOverLeaderRequest, now_ms: int
) -> Decision[HandOverLeaderResponse]:
    """Where nothing was handed over, the reply says what should be."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], HandOverLeaderResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    move = state.balancer.offer_for(state.image, request.broker_id)
    if request.is_stopping:
        return Decision(begin_to_stop(broker), HandOverLeaderResponse())
    if request.successor == NO_LEADER:
        return Decision([], HandOverLeaderResponse() if move is None else _told(move))
    try:
        _check_epochs(state.image, request)
        if not broker.in_controlled_shutdown and not request.has_no_room:
            _check_offered(request, move)
        record = _record(state, request)
    except KafkaError as error:
        return Decision([], HandOverLeaderResponse(error_code=error.code, error_message=error.message))
    if broker.in_controlled_shutdown:
        state.heartbeats.hands_over(broker.node_id, state.next_offset)
    elif move is not None and not request.has_no_room:
        state.balancer.take_up(move, state.next_offset, now_ms)
    return Decision([record], HandOverLeaderResponse())


def _told(move: Move) -> HandOverLeaderResponse:
    return HandOverLeaderResponse(
        topic_id=move.topic_id, partition=move.index, leader_epoch=move.leader_epoch - 1, successor=move.taker
    )


def _check_epochs(image: ClusterImage, request: HandOverLeaderRequest) -> None:
    """Raises KafkaError where the partition is not what the leader knows: it has heard, or will hear, what it is."""
    topic = image.topics_by_id.get(request.topic_id)
    partition = None if topic is None else topic.partitions.get(request.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if request.leader_epoch != partition.leader_epoch or request.broker_id != partition.leader:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if request.partition_epoch != partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_offered(request: HandOverLeaderRequest, move: Move | None) -> None:
    wanted = request.topic_id, request.partition, request.successor
    if move is None or wanted != (move.topic_id, move.index, move.taker):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "this broker is not to hand that over, or no longer")


def _record(state: ControllerState, request: HandOverLeaderRequest) -> PartitionChangeRecord:
    topic = state.image.topics_by_id[request.topic_id]
    before = topic.partitions[request.partition]
    if request.successor not in before.isr:  # an eligible leader has what is committed, which may not be all
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {request.successor} is not in sync")
    isr = [one for one in before.isr if one != request.broker_id] if request.has_no_room else None
    record = changed(Electorate(state), topic, request.partition, Wanted(isr=isr, leader=request.successor))
    if record is None or record.leader != request.successor:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {request.successor} cannot lead")
    return record
