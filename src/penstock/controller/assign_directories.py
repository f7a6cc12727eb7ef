"""AssignReplicasToDirs: a broker says in which of its directories replicas lie (KIP-858).

So the controller knows what a directory that goes offline costs. A replica that was put into one that is offline
already neither leads nor is in sync any longer, where others can do without it.
"""

from uuid import UUID

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision
from penstock.controller.partition_change import Electorate, Wanted, changed
from penstock.metadata.features import DIRECTORY_LEVEL
from penstock.metadata.image import TopicImage
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY, is_reserved
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)


def decide_assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest, now_ms: int
) -> Decision[AssignReplicasToDirsResponse]:
    broker = state.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    if state.image.metadata_version < DIRECTORY_LEVEL:
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    records: list[MetadataRecord] = []
    seen: dict[tuple[UUID, int], None] = {}
    directories = []
    for asked in request.directories:
        topics = []
        for topic in asked.topics:
            answers = []
            for partition in topic.partitions:
                index = partition.partition_index
                answer = AssignReplicasToDirsResponsePartitionData(partition_index=index)
                try:
                    if (topic.topic_id, index) in seen or len(records) >= MAX_RECORDS_PER_DECISION:
                        raise KafkaError(ErrorCode.INVALID_REQUEST)
                    seen[topic.topic_id, index] = None
                    record = _assigned(state, broker.node_id, topic.topic_id, index, asked.id)
                    records += [record] if record is not None else []
                except KafkaError as error:
                    answer.error_code = error.code
                answers.append(answer)
            topics.append(AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id, partitions=answers))
        directories.append(AssignReplicasToDirsResponseDirectoryData(id=asked.id, topics=topics))
    return Decision(records, AssignReplicasToDirsResponse(directories=directories))


def _assigned(
    state: ControllerState, broker_id: int, topic_id: UUID, index: int, directory: UUID
) -> PartitionChangeRecord | None:
    topic = state.image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if index not in topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker_id not in topic.partitions[index].replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if topic.by_consensus:
        return _in_group(topic, index, broker_id, directory)
    return changed(Electorate(state), topic, index, _wanted(state, topic, index, broker_id, directory))


def _in_group(topic: TopicImage, index: int, broker_id: int, directory: UUID) -> PartitionChangeRecord | None:
    """A log of a storage group's partition may lie anywhere; the group's own makes a voter with its directory."""
    partition = topic.partitions[index]
    if partition.directory_of(broker_id) == directory:
        return None
    if topic.name == STORAGE_GROUPS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    directories = [partition.directory_of(replica) for replica in partition.replicas]
    directories[partition.replicas.index(broker_id)] = directory
    return PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, directories=directories)


def _wanted(state: ControllerState, topic: TopicImage, index: int, broker_id: int, directory: UUID) -> Wanted:
    partition = topic.partitions[index]
    directories = list(partition.directories)
    if len(directories) != len(partition.replicas):
        directories = [UNASSIGNED_DIRECTORY] * len(partition.replicas)
    directories[partition.replicas.index(broker_id)] = directory
    wanted = Wanted(directories=directories)
    is_online = directory in state.image.brokers[broker_id].directories and not is_reserved(directory)
    if is_online:
        return wanted
    wanted.lost = broker_id
    electorate = Electorate(state, going=broker_id)
    if any(electorate.may_lead(partition, replica) for replica in partition.isr):
        wanted.isr = [replica for replica in partition.isr if replica != broker_id]
    return wanted
