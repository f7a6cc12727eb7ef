"""Metadata, versions 0 to 13: brokers, controller, topics, partitions and their leaders.

No topics asked for means all of them in version 0 and none later, where null means all. Topics are found by name or,
from version 12 on, by id. A name that is not there is created if both the request and `auto.create.topics.enable` allow
it; then the answer waits until the topic can be used. Brokers come in order, and topics as they were asked for, or
made: to sort very many would hold everybody up. The cost is that of the brokers and the topics asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from penstock.metadata.image import ClusterImage, PartitionImage, TopicImage
from penstock.metadata.topic_names import topic_name_error
from penstock.node.api.partition_views import ListenerView
from penstock.node.controlling.topic_creation import create_missing
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CREATE_IN_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, NOT_ASKED, Right
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import listed
from penstock.node.serving.rules import OPERATIONS, Within
from penstock.node.serving.slices import BeforeAnswer, Pace, Steps
from penstock.protocol.acls import Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import Act, is_internal, refusal_of
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import ZERO_UUID

EMPTY_MEANS_ALL = 0
"""The version in which an empty list of topics asks for all."""

FIRST_WITH_IDS = 12
"""Versions 10 and 11 have a field for the topic id that nothing can be asked by (KIP-516)."""

PARTITIONS_A_STEP = 100
"""Topics and partitions that are described before other requests have a turn."""

NAMES_A_STEP = 250

CREATED_AT_ONCE = 1_000
"""Topics that one request may have created; those behind them are unknown for now, and the client asks again."""

Failures = dict[str, ErrorCode]

UNTOLD: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST)
"""Errors of topics of which it is not told what the client may do: it may of those that are not there yet."""


RULE: Final = (
    Within(DESCRIBE_TOPIC, "for each; of all topics what is without it is left out"),
    Within(CREATE_IN_CLUSTER, f"or {CREATE_TOPIC} for each that is to be created"),
    OPERATIONS,
)


@handles(ApiKey.METADATA, versions=(0, 13), rule=RULE)
def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
    if context.api_version == EMPTY_MEANS_ALL and not request.topics:
        request.topics = None
    failures: Failures = {}
    if request.topics and request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        missing = yield from _missing_names(context, broker.image, request.topics)
        failures = {n: refusal.code for n in missing if (refusal := refusal_of(n, Act.AUTO_CREATE)) is not None}
        if missing and not context.has(CREATE_IN_CLUSTER):
            may_not = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            failures |= {name: may_not for name in missing if not context.allows(CREATE_TOPIC, name)}
        creatable = [name for name in missing if name not in failures]
        if creatable:
            creating = create_missing(broker.config, broker.image, broker.controller, creatable, context)
            failures |= yield BeforeAnswer(creating)
    return (yield from _answer(broker, context, request, failures))


def _missing_names(
    context: RequestContext, image: ClusterImage, topics: list[MetadataRequestTopic]
) -> Steps[list[str]]:
    """The names that do not exist, as far as the client may know that."""
    missing: dict[str, None] = {}
    pace = Pace(NAMES_A_STEP)
    for topic in topics:
        if len(missing) >= CREATED_AT_ONCE:
            break
        if pace.is_due():
            yield None
        name = topic.name
        if name is None or name in image.topics or topic.topic_id != ZERO_UUID:
            continue
        if topic_name_error(name) is None and context.shows(DESCRIBE_TOPIC, name):
            missing[name] = None
    return list(missing)


def _once(topics: list[MetadataRequestTopic]) -> Steps[list[MetadataRequestTopic]]:
    """Each topic is told of once, as Kafka does, however often it is named: it may have very many partitions."""
    found: dict[str | UUID | None, MetadataRequestTopic] = {}
    pace = Pace(NAMES_A_STEP)
    for topic in topics:
        if pace.is_due():
            yield None
        found.setdefault(topic.name if topic.topic_id == ZERO_UUID else topic.topic_id, topic)
    return list(found.values())


def _answer(
    broker: Broker, context: RequestContext, request: MetadataRequest, failures: Failures
) -> Steps[MetadataResponse]:
    image: ClusterImage = broker.image
    view = ListenerView(image, context.session.listener)
    topics: list[MetadataResponseTopic] = []
    asked: Iterable[MetadataRequestTopic] = (yield from _once(request.topics)) if request.topics else ()
    may: Callable[[Right, str], bool] = context.allows
    if request.topics is None:
        may = context.shows
        asked = (MetadataRequestTopic(name=name) for name in (yield from listed(image.topics)))
    pace = Pace(PARTITIONS_A_STEP)
    for topic in asked:
        described, known = _asked(context.api_version, image, topic, failures, may)
        if request.topics is not None or described.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topics.append(described)
        partitions = known.partitions if known is not None else {}
        for index in range(len(partitions)):
            described.partitions.append(_partition(index, partitions[index], view))
            if pace.is_due():
                yield None
        if pace.is_due():
            yield None
    if request.include_topic_authorized_operations:
        yield from _tell_operations(context, topics)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=endpoint.host, port=endpoint.port, rack=known.rack)
            for node, (known, endpoint) in view.reachable.items()
        ],
        cluster_id=image.cluster_id,
        controller_id=view.controller_id(broker.active_controller_id, broker.node_id),
        topics=topics,
        cluster_authorized_operations=(
            context.cluster_operations if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _tell_operations(context: RequestContext, topics: list[MetadataResponseTopic]) -> Steps[None]:
    pace = Pace(PARTITIONS_A_STEP)
    for described in topics:
        if pace.is_due():
            yield None
        if described.name is not None and described.error_code not in UNTOLD:
            described.topic_authorized_operations = context.operations_on(Resource.TOPIC, described.name)


def _asked(
    version: int,
    image: ClusterImage,
    asked: MetadataRequestTopic,
    failures: Failures,
    may: Callable[[Right, str], bool],
) -> tuple[MetadataResponseTopic, TopicImage | None]:
    """What is told of a topic but for its partitions, and where those are."""
    if asked.topic_id != ZERO_UUID:
        if version < FIRST_WITH_IDS:
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=asked.name or ""), None
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            ), None
        if not may(DESCRIBE_TOPIC, topic.name):
            return _refused(None, asked.topic_id), None
        return _described(topic), topic
    if asked.name is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name="" if version < FIRST_WITH_IDS else None
        ), None
    if not may(DESCRIBE_TOPIC, asked.name):
        return _refused(asked.name, ZERO_UUID), None
    topic = image.topics.get(asked.name)
    if topic is not None:
        return _described(topic), topic
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic_name_error(asked.name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        error_code=failures.get(asked.name, code), name=asked.name, is_internal=is_internal(asked.name)
    ), None


def _refused(name: str | None, topic_id: UUID) -> MetadataResponseTopic:
    """A topic that may not be described, named as in the request."""
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id)


def _described(topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal)


def _partition(index: int, partition: PartitionImage, view: ListenerView) -> MetadataResponsePartition:
    leader, code = view.leader(partition)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=view.list_of(partition.replicas),
        isr_nodes=view.list_of(partition.isr),
        offline_replicas=view.offline(partition),
    )
