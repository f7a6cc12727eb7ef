"""AlterPartition: the leader of a partition says which replicas are in sync with it (KIP-497).

Who may say so is fenced three ways: by the broker's epoch, by the partition's leader epoch and by its partition epoch.
A leader that knows a higher epoch than the controller talks to one that is not active any more: NOT_CONTROLLER.
Replicas of brokers that are fenced, on their way out, or of another epoch than the leader thinks cannot come in
(KIP-841, KIP-903): INELIGIBLE_REPLICA.

When the last replica of a move comes in sync the move is over (`partition_change`). That may take the leadership from
the leader that asked; it is told NEW_LEADER_ELECTED then, though the change holds.
"""

from uuid import UUID

from penstock.controller.decision import ControllerState, Decision
from penstock.controller.group_leaders import check_elected_here
from penstock.controller.partition_change import (
    RECOVERED,
    Election,
    Electorate,
    Wanted,
    allows_unclean,
    changed,
)
from penstock.metadata.image import ClusterImage, PartitionImage, TopicImage
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topics import NO_LEADER_CHANGE, RECOVERING, Sharing, partition_changed
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)

ANY_EPOCH = -1


def decide_alter_partition(
    state: ControllerState, request: AlterPartitionRequest, now_ms: int
) -> Decision[AlterPartitionResponse]:
    """The answer has each partition as it is after the change."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    records: list[MetadataRecord] = []
    touched: dict[tuple[UUID, int], None] = {}
    topics = []
    for asked_topic in request.topics:
        answers = []
        for asked in asked_topic.partitions:
            answer = AlterPartitionResponsePartitionData(partition_index=asked.partition_index)
            try:
                if (asked_topic.topic_id, asked.partition_index) in touched:
                    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
                touched[asked_topic.topic_id, asked.partition_index] = None
                _alter(state, request.broker_id, asked_topic, asked, records, answer)
            except KafkaError as error:
                answer.error_code = error.code
            answers.append(answer)
        topics.append(AlterPartitionResponseTopicData(topic_id=asked_topic.topic_id, partitions=answers))
    return Decision(records, AlterPartitionResponse(topics=topics))


def _alter(
    state: ControllerState,
    broker_id: int,
    asked_topic: AlterPartitionRequestTopicData,
    asked: AlterPartitionRequestPartitionData,
    records: list[MetadataRecord],
    answer: AlterPartitionResponsePartitionData,
) -> None:
    """Raises KafkaError with the obstacle."""
    topic = state.image.topics_by_id.get(asked_topic.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    isr = asked.new_isr_with_epochs or [BrokerState(broker_id=replica) for replica in asked.new_isr]
    partition = _checked(state.image, topic, broker_id, asked, isr)
    wanted = Wanted(isr=[replica.broker_id for replica in isr], recovery_state=asked.leader_recovery_state)
    if allows_unclean(state, topic.name):
        wanted.election = Election.UNCLEAN
    record = changed(Electorate(state), topic, asked.partition_index, wanted)
    if record is not None:
        records.append(record)
        partition = partition_changed(partition, record, Sharing())
        if record.leader not in (broker_id, NO_LEADER_CHANGE):
            raise KafkaError(ErrorCode.NEW_LEADER_ELECTED)
    answer.leader_id = partition.leader
    answer.leader_epoch = partition.leader_epoch
    answer.partition_epoch = partition.partition_epoch
    answer.isr = list(partition.isr)
    answer.leader_recovery_state = partition.leader_recovery_state


def _checked(
    image: ClusterImage,
    topic: TopicImage,
    broker_id: int,
    asked: AlterPartitionRequestPartitionData,
    isr: list[BrokerState],
) -> PartitionImage:
    """Raises KafkaError if the leader may not change the partition so."""
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    check_elected_here(topic, asked.partition_index, ErrorCode.INVALID_REQUEST)
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if asked.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    if not _makes_sense(partition, [replica.broker_id for replica in isr], asked.leader_recovery_state):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(image, replica) for replica in isr):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
    return partition


def _makes_sense(partition: PartitionImage, isr: list[int], recovery_state: int) -> bool:
    """Whether the leader and other replicas are in sync, each once; none but the leader while it recovers (KIP-704)."""
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return False
    if recovery_state == RECOVERING:
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return recovery_state == RECOVERED


def _is_eligible(image: ClusterImage, replica: BrokerState) -> bool:
    broker = image.brokers.get(replica.broker_id)
    return broker is not None and broker.active and replica.broker_epoch in (ANY_EPOCH, broker.epoch)
