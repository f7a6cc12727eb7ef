"""DescribeTopicPartitions, version 0: partitions of topics, a page at a time (KIP-966).

Topics come in order of their names; none asked for means all. A page holds at most `response_partition_limit`
partitions, and never more than `max.request.partition.size.limit`. The cursor of the answer is where the next page
begins; a topic that it names may have gone meanwhile, then the page begins with the next one.
"""

from bisect import bisect_left
from collections.abc import Iterator

from penstock.metadata.image import ClusterImage, PartitionImage, TopicImage
from penstock.metadata.topic_names import topic_name_error
from penstock.node.api.partition_views import ListenerView
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import in_order, times_named
from penstock.node.serving.rules import Within
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.acls import Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import is_internal
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.requests.api import ApiKey

PARTITIONS_A_STEP = 100
OF_A_TOPIC = 2
"""A topic costs as much as so many partitions."""


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=(0, 0),
    rule=(Within(DESCRIBE_TOPIC, "for each; of all topics what is without it is left out"),),
)
def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    image: ClusterImage = broker.image
    view = ListenerView(image, context.session.listener)
    room = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    pace = Pace(PARTITIONS_A_STEP)
    for name, first in (yield from _names_from(image, request)):
        if pace.is_due(OF_A_TOPIC):
            yield None
        if not (context.allows if request.topics else context.shows)(DESCRIBE_TOPIC, name):
            if request.topics:
                response.topics.append(_refused(name))
            continue
        if room <= 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=first)
            break
        topic = image.topics.get(name)
        if topic is None:
            described = _missing(name)
        else:
            described = yield from _page(topic, view, first, room, pace)
        described.topic_authorized_operations = context.operations_on(Resource.TOPIC, name)
        response.topics.append(described)
        room -= len(described.partitions)
        reached = first + len(described.partitions)
        if topic is not None and reached < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=reached)
            break
    return response


def _names_from(image: ClusterImage, request: DescribeTopicPartitionsRequest) -> Steps[Iterator[tuple[str, int]]]:
    """The topics of this page and those after it, each with its first partition that is to be told."""
    asked = yield from times_named(topic.name for topic in request.topics)
    names = yield from in_order(asked or image.topics)
    cursor = request.cursor
    if cursor is None:
        return ((name, 0) for name in names)
    began, first = cursor.topic_name, max(0, cursor.partition_index)
    return ((name, first if name == began else 0) for name in names[bisect_left(names, began) :])


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_name = topic_name_error(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _page(
    topic: TopicImage, view: ListenerView, first: int, room: int, pace: Pace
) -> Steps[DescribeTopicPartitionsResponseTopic]:
    described = DescribeTopicPartitionsResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal
    )
    for index in range(first, min(first + room, len(topic.partitions))):
        described.partitions.append(_described(index, topic.partitions[index], view))
        if pace.is_due():
            yield None
    return described


def _described(index: int, partition: PartitionImage, view: ListenerView) -> DescribeTopicPartitionsResponsePartition:
    leader, code = view.leader(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=view.list_of(partition.replicas),
        isr_nodes=view.list_of(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline(partition),
    )
