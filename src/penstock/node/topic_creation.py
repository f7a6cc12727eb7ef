"""Topics that come into being because somebody asks for them: clients' own, and those that the cluster keeps itself."""

from collections.abc import Sequence

from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.node.broker import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

DEFAULT = -1


async def create_missing(broker: Broker, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Creates topics and waits until they can be used; an error code by name for each that could not be."""
    topics = [creatable(broker, name) for name in names]
    reply = await broker.controller.submit(CreateTopicsRequest(topics=topics))
    return {
        result.name: ErrorCode(result.error_code)
        for result in reply.topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }


def creatable(broker: Broker, name: str) -> CreatableTopic:
    """The topic of that name as the broker's configuration wants it."""
    config = broker.config
    if name == CONSUMER_OFFSETS:
        return _internal(
            broker.image,
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE:
        return _internal(
            broker.image,
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT)


def _internal(
    image: ClusterImage, name: str, partitions: int, replication_factor: int, configs: dict[str, str]
) -> CreatableTopic:
    """An internal topic has at most as many replicas as there are brokers, or else a small cluster could not work."""
    active = sum(1 for broker in image.brokers.values() if broker.active)
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=min(replication_factor, max(1, active)),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
