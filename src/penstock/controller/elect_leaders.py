"""ElectLeaders: the first replica leads again, or somebody leads what nobody does, with loss if need be (KIP-460)."""

from collections.abc import Iterator

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision
from penstock.controller.group_leaders import check_elected_here
from penstock.controller.partition_change import Election, Electorate, Wanted, changed
from penstock.metadata.partition_index import each
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.requests.refusals import refusal

_NOT_AVAILABLE = {
    Election.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    Election.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def decide_elect_leaders(
    state: ControllerState, request: ElectLeadersRequest, now_ms: int
) -> Decision[ElectLeadersResponse]:
    """Without partitions in the request, all that need an election. Configs need not allow an unclean one."""
    if request.election_type not in _NOT_AVAILABLE:
        message = f"{request.election_type} is no type of an election"
        return Decision([], refusal(request, KafkaError(ErrorCode.INVALID_REQUEST, message)))
    election = Election(request.election_type)
    records: list[MetadataRecord] = []
    results: dict[str, dict[int, PartitionResult]] = {}
    for name, index in _asked(state, request, election):
        answers = results.setdefault(name, {})
        if index in answers:
            continue
        answer = PartitionResult(partition_id=index, error_message=None)
        try:
            records.append(_elected(state, name, index, election, len(records)))
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        answers[index] = answer
    told = [
        ReplicaElectionResult(topic=name, partition_result=list(answers.values())) for name, answers in results.items()
    ]
    return Decision(records, ElectLeadersResponse(replica_election_results=told))


def _asked(state: ControllerState, request: ElectLeadersRequest, election: Election) -> Iterator[tuple[str, int]]:
    if request.topic_partitions is not None:
        for asked in request.topic_partitions:
            yield from ((asked.topic, index) for index in asked.partitions)
        return
    found = list(each(state.image.index.leaderless))
    if election is Election.PREFERRED:
        found += each(state.image.index.moved)
    yield from ((name, index) for name, index in found if not state.image.topics[name].by_consensus)


def _elected(state: ControllerState, name: str, index: int, election: Election, records: int) -> MetadataRecord:
    topic = state.image.topics.get(name)
    if topic is None or index not in topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}")
    check_allowed(name, Act.MOVE)
    check_elected_here(topic, index, ErrorCode.INVALID_REQUEST)
    partition = topic.partitions[index]
    if partition.leader == partition.replicas[0] or (election is Election.UNCLEAN and partition.leader != NO_LEADER):
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{name}-{index} is led by broker {partition.leader}")
    if records >= MAX_RECORDS_PER_DECISION:
        message = f"One request may elect at most {MAX_RECORDS_PER_DECISION} leaders"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    record = changed(Electorate(state), topic, index, Wanted(election=election))
    if record is None:
        message = f"No broker that could lead {name}-{index} now is there"
        raise KafkaError(_NOT_AVAILABLE[election], message)
    return record
