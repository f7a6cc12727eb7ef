"""Replies that refuse a whole request: no controller is active, its log failed, or the time ran out.

The error stands wherever the layout of the API's response has room for one: beside each thing that was asked for, or
else at the top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import api_of_request

if TYPE_CHECKING:
    from penstock.protocol.errors import KafkaError
    from penstock.protocol.messages.alter_configs import AlterConfigsRequest
    from penstock.protocol.messages.create_partitions import CreatePartitionsRequest
    from penstock.protocol.messages.create_topics import CreateTopicsRequest
    from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
    from penstock.protocol.messages.elect_leaders import ElectLeadersRequest
    from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
    from penstock.protocol.messages.update_features import UpdateFeaturesRequest
    from penstock.protocol.schema import Message

Items = list[dict[str, Any]]


def refusal(request: Message, error: KafkaError) -> Any:
    """The response that answers `request` with `error` throughout.

    All commands of `DECISIONS` have one; so has whatever else the active controller alone answers.
    """
    api = api_of_request(request)
    response_class = api.response_class
    response = _with_error(response_class, error)
    if api.key in _BESIDE_EACH:
        field, items = _BESIDE_EACH[api.key]
        item_class = response_class.__fields__[field].kind
        setattr(response, field, [_with_error(item_class, error, **item) for item in items(request)])
    elif api.key == ApiKey.ELECT_LEADERS:
        response.replica_election_results = _elections(response_class, cast("ElectLeadersRequest", request), error)
    return response


def _with_error(message_class: Any, error: KafkaError, **values: Any) -> Any:
    """Such a message with the error in it, as far as it has room for the code and for words."""
    told = {"error_code": error.code, "error_message": error.message}
    return message_class(**values, **{name: it for name, it in told.items() if name in message_class.__fields__})


def _topics(request: CreateTopicsRequest | CreatePartitionsRequest) -> Items:
    return [{"name": topic.name} for topic in request.topics]


def _topics_or_ids(request: DeleteTopicsRequest) -> Items:
    by_name: Items = [{"name": name} for name in request.topic_names]
    return by_name + [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]


def _resources(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Items:
    return [{"resource_type": one.resource_type, "resource_name": one.resource_name} for one in request.resources]


def _features(request: UpdateFeaturesRequest) -> Items:
    return [{"feature": update.feature} for update in request.feature_updates]


_BESIDE_EACH: Final[dict[int, tuple[str, Callable[[Any], Items]]]] = {
    ApiKey.CREATE_TOPICS: ("topics", _topics),
    ApiKey.DELETE_TOPICS: ("responses", _topics_or_ids),
    ApiKey.CREATE_PARTITIONS: ("results", _topics),
    ApiKey.ALTER_CONFIGS: ("responses", _resources),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses", _resources),
    ApiKey.UPDATE_FEATURES: ("results", _features),
}
"""In which field of the response the error stands beside each thing, and what else stands there."""


def _elections(response_class: Any, request: ElectLeadersRequest, error: KafkaError) -> list[Any]:
    """Version 0 of ElectLeaders has no place for one error of all, so it stands beside each partition, too."""
    topic_class = response_class.__fields__["replica_election_results"].kind
    partition_class = topic_class.__fields__["partition_result"].kind
    return [
        topic_class(
            topic=asked.topic,
            partition_result=[_with_error(partition_class, error, partition_id=index) for index in asked.partitions],
        )
        for asked in request.topic_partitions or ()
    ]
