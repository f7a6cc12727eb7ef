"""Replies that refuse a whole command: the controller is not active, its log failed, or the time ran out.

The error stands wherever the layout of the API's response has room for one, that is mostly beside each thing asked for.
"""

from collections.abc import Callable
from typing import Any

from penstock.controller.update_features import answer
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.protocol.schema import Message


def refusal(command: Message, error: KafkaError) -> Any:
    """The response that answers `command` with `error` throughout.

    All commands of `DECISIONS` have one; so has ListPartitionReassignments, which the active controller alone answers.
    """
    return _REFUSALS[type(command)](command, error)


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    asked: list[dict[str, Any]] = [{"name": name} for name in request.topic_names]
    asked += [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(error_code=error.code, error_message=error.message, **topic) for topic in asked]
    )


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked in request.resources
        ]
    )


def _incremental(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked in request.resources
        ]
    )


def _elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Version 0 has no place for one error of all, so it stands beside each partition, too."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def _update_features(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    return answer(request, error.code, error.message)


def _by_code(response_class: Callable[..., Message]) -> Callable[[Message, KafkaError], Message]:
    return lambda request, error: response_class(error_code=error.code)


def _by_code_and_message(response_class: Callable[..., Message]) -> Callable[[Message, KafkaError], Message]:
    return lambda request, error: response_class(error_code=error.code, error_message=error.message)


_REFUSALS: dict[type[Message], Callable[[Any, KafkaError], Message]] = {
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    CreatePartitionsRequest: _create_partitions,
    AlterConfigsRequest: _alter_configs,
    IncrementalAlterConfigsRequest: _incremental,
    AllocateProducerIdsRequest: _by_code(AllocateProducerIdsResponse),
    BrokerRegistrationRequest: _by_code(BrokerRegistrationResponse),
    BrokerHeartbeatRequest: _by_code(BrokerHeartbeatResponse),
    ControllerRegistrationRequest: _by_code_and_message(ControllerRegistrationResponse),
    UnregisterBrokerRequest: _by_code_and_message(UnregisterBrokerResponse),
    AlterPartitionRequest: _by_code(AlterPartitionResponse),
    AssignReplicasToDirsRequest: _by_code(AssignReplicasToDirsResponse),
    ElectLeadersRequest: _elect_leaders,
    AlterPartitionReassignmentsRequest: _by_code_and_message(AlterPartitionReassignmentsResponse),
    ListPartitionReassignmentsRequest: _by_code_and_message(ListPartitionReassignmentsResponse),
    UpdateFeaturesRequest: _update_features,
}
