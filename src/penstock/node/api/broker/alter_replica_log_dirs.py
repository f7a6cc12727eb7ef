"""AlterReplicaLogDirs 1-2: move replicas of this broker between its log directories (KIP-113).

The answer comes when the moves begin; DescribeLogDirs tells how far they are. For a replica that is not here yet the
directory is kept in mind, and REPLICA_NOT_AVAILABLE tells to come back.
"""

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALTER_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), rule=(Whole(ALTER_CLUSTER),))
def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = _move(broker, topic.name, index, directory.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    try:
        target = broker.moves.check_target(path)
        known = broker.image.topics.get(topic)
        if known is None or not broker.replicas.holds(known, index):
            broker.moves.prefer(topic, index, target)
        broker.moves.move(broker.partition(topic, index), target)
    except KafkaError as error:
        is_elsewhere = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else error.code
    return ErrorCode.NONE
