"""Replies that refuse a whole command: the controller is not active, its log failed, or the time ran out.

The error stands wherever the layout of the API's response has room for one, that is mostly beside each thing asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.protocol.api import ApiKey
from penstock.protocol.framing import api_of_request

if TYPE_CHECKING:
    from penstock.protocol.errors import KafkaError
    from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from penstock.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from penstock.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from penstock.protocol.schema import Message


def refusal(command: Message, error: KafkaError) -> Any:
    """The response that answers `command` with `error` throughout.

    All commands of `DECISIONS` have one; so has whatever else the active controller alone answers.
    """
    api = api_of_request(command)
    refuse = _BESIDE_EACH.get(api.key)
    if refuse is not None:
        return refuse(command, error)
    response_class = api.response_class
    values: dict[str, Any] = {"error_code": error.code, "error_message": error.message}
    return response_class(**{name: value for name, value in values.items() if name in response_class.__fields__})


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse

    asked: list[dict[str, Any]] = [{"name": name} for name in request.topic_names]
    asked += [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(error_code=error.code, error_message=error.message, **topic) for topic in asked]
    )


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    from penstock.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult

    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    from penstock.protocol.messages.alter_configs import AlterConfigsResourceResponse, AlterConfigsResponse

    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked in request.resources
        ]
    )


def _incremental(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    from penstock.protocol.messages.incremental_alter_configs import (
        AlterConfigsResourceResponse,
        IncrementalAlterConfigsResponse,
    )

    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
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

    from penstock.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

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
    from penstock.controller.update_features import answer

    return answer(request, error.code, error.message)


_BESIDE_EACH: Final[dict[int, Callable[[Any, KafkaError], Message]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.UPDATE_FEATURES: _update_features,
}
"""Where the error stands beside each thing asked for. All others have room for it at the top, some with a message.

What they import is imported when it is needed: a controller seldom refuses whole commands."""
