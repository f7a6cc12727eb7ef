"""Partitions move to other replicas (KIP-455): a move begins, is listed, is cancelled; it ends in `partition_change`.

| step | replicas |
| --- | --- |
| a move begins | those of the target first, then those that are to be removed; those not in sync yet are added |
| all of the target are in sync | those of the target alone |
| it takes another course | the new target first, then all others; what was added stays marked as added |
| it is cancelled before that | those that were there before the first course, without the added ones |

A move that only puts replicas into another order is over at once, and so is one to replicas that are all in sync.

A storage group moves as its partition of `__storage_group`, and all that is in it with it; a partition in it does not
move alone. The group's leader gives those of the target a vote and takes it from the others, one after the other; it is
over when the leader claims with these voters (`claim_storage_group`). To cancel it is to move back.
"""

from collections.abc import Iterable

from penstock.controller.assignments import FIRST_EPOCH, check_replicas
from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision
from penstock.controller.group_leaders import record_of
from penstock.controller.partition_change import Election, Electorate, Wanted, allows_unclean, changed
from penstock.controller.storage_groups import StorageGroups
from penstock.metadata.image import ClusterImage, PartitionImage, TopicImage
from penstock.metadata.partition_index import each
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS, Act, check_allowed
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.protocol.value import Value


class _Moves(Value):
    """What the moves of one request share."""

    state: ControllerState
    groups: StorageGroups
    may_resize: bool


def decide_alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest, now_ms: int
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Partitions without replicas in the request end their moves."""
    moves = _Moves(state, StorageGroups(state), request.allow_replication_factor_change)
    records: list[MetadataRecord] = []
    responses = []
    seen: dict[tuple[str, int], None] = {}
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
            try:
                if (topic.name, asked.partition_index) in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names each partition once")
                seen[topic.name, asked.partition_index] = None
                record = _altered(moves, topic.name, asked)
                if record is not None:
                    _check_room(records)
                    records.append(record)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return Decision(records, reply)


def list_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """All if `request` names none. Only the active controller answers this, from what is committed."""
    asked: Iterable[tuple[str, int]]
    if request.topics is None:
        asked = each(image.index.reassigning)
    else:
        asked = ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    found: dict[str, OngoingTopicReassignment] = {}
    for name, index in asked:
        topic = image.topics.get(name)
        partition = topic.partitions.get(index) if topic is not None else None
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            found.setdefault(name, OngoingTopicReassignment(name=name)).partitions.append(_ongoing(index, partition))
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(found.values()))


def _ongoing(index: int, partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


def _check_room(records: list[MetadataRecord]) -> None:
    if len(records) >= MAX_RECORDS_PER_DECISION:
        message = f"One request may move at most {MAX_RECORDS_PER_DECISION} partitions"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _altered(moves: _Moves, name: str, asked: ReassignablePartition) -> PartitionChangeRecord | None:
    topic = moves.state.image.topics.get(name)
    if topic is None or asked.partition_index not in topic.partitions:
        message = f"There is no partition {name}-{asked.partition_index}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    check_allowed(name, Act.MOVE)
    if topic.storage_group is not None:
        message = (
            f"{name}-{asked.partition_index} has the replicas of its storage group: "
            f"move {STORAGE_GROUPS}-{topic.storage_group}, and all that is in it moves"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if asked.replicas is None:
        return _cancelled(moves, topic, asked.partition_index)
    return _moved(moves, topic, asked.partition_index, asked.replicas)


def _moved(moves: _Moves, topic: TopicImage, index: int, target: list[int]) -> PartitionChangeRecord | None:
    partition = topic.partitions[index]
    check_replicas(moves.state.image, target, None, present=partition.replicas)
    before = _before_the_move(partition)
    if len(target) != len(before) and not moves.may_resize:
        message = f"{topic.name}-{index} has {len(before)} replicas, and the request forbids to make them {len(target)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.by_consensus:
        return _group_moved(moves, topic, index, target)
    way = _on_the_way(partition, target)
    wanted = Wanted(replicas=way.replicas, removing=way.removing_replicas, adding=way.adding_replicas)
    return changed(Electorate(moves.state), topic, index, wanted)


def _on_the_way(partition: PartitionImage, target: list[int]) -> PartitionImage:
    """A replica that an earlier move has added was not there before, whether the new target has it or not."""
    replicas = (*target, *(replica for replica in partition.replicas if replica not in target))
    before = _before_the_move(partition)
    return partition._replace(
        replicas=replicas,
        removing_replicas=replicas[len(target) :],
        adding_replicas=tuple(replica for replica in replicas if replica not in before),
    )


def _group_moved(moves: _Moves, topic: TopicImage, index: int, target: list[int]) -> PartitionChangeRecord | None:
    """Replicas that are to be removed stay until they have no vote any more."""
    group = topic.partitions[index]
    if group.leader == NO_LEADER and group.leader_epoch == FIRST_EPOCH:
        message = f"{topic.name}-{index} has never had a leader: who votes is settled when one of its replicas leads"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    way, choose = _on_the_way(group, target), moves.groups.directory
    directories = tuple(group.directory_of(it) if it in group.replicas else choose(it) for it in way.replicas)
    return record_of(topic, index, way._replace(directories=directories))


def _cancelled(moves: _Moves, topic: TopicImage, index: int) -> PartitionChangeRecord | None:
    state, partition = moves.state, topic.partitions[index]
    if not partition.adding_replicas and not partition.removing_replicas:
        message = f"{topic.name}-{index} is on no way to other replicas"
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
    replicas = _before_the_move(partition)
    if topic.by_consensus:
        return _group_moved(moves, topic, index, replicas)
    isr = [replica for replica in partition.isr if replica in replicas]
    wanted = Wanted(replicas=replicas, isr=isr, removing=(), adding=())
    if not isr:
        # All that are in sync were added by the move: the earlier replicas lack records.
        wanted.election = Election.UNCLEAN
    record = changed(Electorate(state), topic, index, wanted)
    if not isr and (not allows_unclean(state, topic.name) or record is None or record.leader == NO_LEADER):
        message = f"{topic.name}-{index} cannot go back: only replicas that the move added are in sync"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return record


def _before_the_move(partition: PartitionImage) -> list[int]:
    return [replica for replica in partition.replicas if replica not in partition.adding_replicas]
