"""Topics that are created on first use: clients' own, and those that the cluster keeps itself."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.controlling.commands import ActiveController, deadline_of
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.requests.api import ApiKey, api_of

DEFAULT = -1
OFFSETS_FACTOR = "offsets.topic.replication.factor"
TRANSACTIONS_FACTOR = "transaction.state.log.replication.factor"
SHARES_FACTOR = "share.coordinator.state.topic.replication.factor"
LONGEST_WAIT_MS = 5_000
"""For a topic that is created on first use: topics that are there must not wait for a controller."""
NEWEST = api_of(ApiKey.CREATE_TOPICS).versions[-1]
NO_FAILURES = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)
"""The last two leave the topic unknown for now, and clients ask again."""


async def create_missing(
    config: BrokerConfig,
    image: ClusterImage,
    controller: ActiveController,
    names: Sequence[str],
    context: RequestContext | None = None,
) -> dict[str, ErrorCode]:
    """As `create_all`, of topics as they are created on first use."""
    return await create_all(controller, [creatable(name, config, image) for name in names], context)


async def create_all(
    controller: ActiveController, topics: list[CreatableTopic], context: RequestContext | None = None
) -> dict[str, ErrorCode]:
    """Waits a while until the topics can be used; an error code by name for each that could not be created.

    `context` is that of the client for whom they are created, which has the rights and quotas for it; None: the node.
    """
    command = CreateTopicsRequest(topics=topics)
    if context is not None:
        context = replace(context, api_key=ApiKey.CREATE_TOPICS, api_version=NEWEST)
    deadline_s = deadline_of(command, LONGEST_WAIT_MS)
    try:
        reply = await controller.submit(command, CreateTopicsResponse, deadline_s=deadline_s, context=context)
    except KafkaError as error:
        return {} if error.code in NO_FAILURES else dict.fromkeys((topic.name for topic in topics), error.code)
    if context is not None and context.charge is not None:
        context.charge.add_ms(reply.throttle_time_ms)
    return {
        result.name: ErrorCode(result.error_code) for result in reply.topics if result.error_code not in NO_FAILURES
    }


def creatable(name: str, config: BrokerConfig, image: ClusterImage) -> CreatableTopic:
    if name == CONSUMER_OFFSETS:
        return _internal(
            name,
            config.offsets_topic_num_partitions,
            _replicas(OFFSETS_FACTOR, config.offsets_topic_replication_factor, config, image),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE:
        return _internal(
            name,
            config.transaction_state_log_num_partitions,
            _replicas(TRANSACTIONS_FACTOR, config.transaction_state_log_replication_factor, config, image),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE:
        return _internal(
            name,
            config.share_coordinator_state_topic_num_partitions,
            _replicas(SHARES_FACTOR, config.share_coordinator_state_topic_replication_factor, config, image),
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.bytes": "-1",  # states are read whole: share coordinators say where the log begins
                "retention.ms": "-1",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )
    return CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT)


def _replicas(key: str, count: int, config: BrokerConfig, image: ClusterImage) -> int:
    """What is configured; by default no more than there are brokers."""
    return count if key in config.static else min(count, len(image.brokers) or 1)


def _internal(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
