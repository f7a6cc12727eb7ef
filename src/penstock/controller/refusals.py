"""Replies that refuse a whole command: the controller is not active, its log failed, or the time ran out.

The error stands wherever the layout of the API's response has room for one, that is mostly beside each thing asked for.
"""

from collections.abc import Callable
from typing import Any

from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
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
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.schema import Message


def refusal(command: Message, error: KafkaError) -> Any:
    """The response that answers `command` with `error` throughout; all commands of `DECISIONS` have one."""
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
}
