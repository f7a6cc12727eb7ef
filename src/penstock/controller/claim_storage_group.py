"""ClaimStorageGroup: the leader of a storage group wants the metadata to name it, and who has caught up with it.

The group's own log has decided who leads. So a claim is fenced by the epoch of that log: one that is older than the
last that this controller has heard comes late. A controller that takes over has heard none, and may believe a late one;
then the true leader, whom the metadata do not name, asks again.

A claim also says who votes. Where these are the replicas that the group was moving to (`reassignments`), it has
arrived: if the leader knew of this way, for then it has let no other replica vote since.
"""

from collections.abc import Iterator
from itertools import islice

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision
from penstock.controller.group_leaders import record_of
from penstock.metadata.image import ClusterImage, TopicImage
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topics import PartitionImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, ClaimStorageGroupResponse


def decide_claim_storage_group(
    state: ControllerState, request: ClaimStorageGroupRequest, now_ms: int
) -> Decision[ClaimStorageGroupResponse]:
    """The group's own partition changes last: with very many in the group its leader has to ask again until then.

    With the first claim of all it changes first, as nothing is led before.
    """
    try:
        group = _checked(state, request)
    except KafkaError as error:
        return Decision([], ClaimStorageGroupResponse(error_code=error.code, error_message=error.message))
    # The claimant leads in that epoch, whatever becomes of this decision.
    state.group_claims[request.group] = request.group_epoch, request.broker_id
    at_most = state.settings.max_moves_per_decision if group.leader_epoch > 0 else MAX_RECORDS_PER_DECISION
    records = list(islice(_led(state.image, request, _voted(state.image, request, group)), at_most + 1))
    is_all = len(records) <= at_most
    code = ErrorCode.NONE if is_all else ErrorCode.REQUEST_TIMED_OUT
    return Decision(records[:at_most], ClaimStorageGroupResponse(error_code=code))


def _checked(state: ControllerState, request: ClaimStorageGroupRequest) -> PartitionImage:
    """Raises KafkaError if this broker may not claim the group."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    group = state.image.storage_groups.get(request.group)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no storage group {request.group}")
    if request.broker_id not in group.replicas:
        message = f"broker {request.broker_id} is no replica of storage group {request.group}"
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if broker.fenced:
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {request.broker_id} is fenced")
    epoch, leader = state.group_claims.get(request.group, (request.group_epoch, request.broker_id))
    if request.group_epoch < epoch or (request.group_epoch == epoch and request.broker_id != leader):
        message = f"broker {leader} leads storage group {request.group} in epoch {epoch}"
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, message)
    return group


def _voted(image: ClusterImage, request: ClaimStorageGroupRequest, group: PartitionImage) -> PartitionImage:
    """In sync are the leader, and the voters that have caught up, of those that could be."""
    directories = {voter.voter_id: voter.directory_id for voter in request.voters}
    target = tuple(replica for replica in group.replicas if replica not in group.removing_replicas)
    knows_the_way = request.partition_epoch == group.partition_epoch
    has_arrived = knows_the_way and directories.keys() == set(target) and request.broker_id in target
    replicas = target if has_arrived else group.replicas
    known = tuple(directories.get(replica, group.directory_of(replica)) for replica in replicas)
    group = group._replace(replicas=replicas, directories=known, leader=request.broker_id)
    if has_arrived:
        group = group._replace(adding_replicas=(), removing_replicas=())
    isr = [
        replica
        for replica in group.replicas
        if replica == request.broker_id or (replica in request.caught_up and image.is_served(group, replica))
    ]
    return group._replace(isr=tuple(isr))


def _led(image: ClusterImage, request: ClaimStorageGroupRequest, group: PartitionImage) -> Iterator[MetadataRecord]:
    """The leader of the group leads all that is in it."""
    for topic, index in _partitions(image, request.group):
        before, after = topic.partitions[index], group
        if topic.name != STORAGE_GROUPS:
            after = _follows(before, group)
        record = record_of(topic, index, after)
        if record is not None:
            yield record


def _follows(partition: PartitionImage, group: PartitionImage) -> PartitionImage:
    """After a move a partition has the group's order of replicas."""
    if set(partition.replicas) != set(group.replicas):
        directories = [(partition if it in partition.replicas else group).directory_of(it) for it in group.replicas]
        partition = partition._replace(replicas=group.replicas, directories=tuple(directories))
    isr = tuple(replica for replica in partition.replicas if replica in group.isr)
    return partition._replace(leader=group.leader, isr=isr)


def _partitions(image: ClusterImage, number: int) -> Iterator[tuple[TopicImage, int]]:
    groups, has_begun = image.topics[STORAGE_GROUPS], image.storage_groups[number].leader_epoch > 0
    if not has_begun:
        yield groups, number
    for topic in image.topics_of_storage_group(number):
        yield from ((topic, index) for index in topic.partitions)
    if has_begun:
        yield groups, number
