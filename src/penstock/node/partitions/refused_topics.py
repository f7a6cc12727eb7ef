"""Topics that the metadata have and of which no broker holds a replica, because their logs belong to others."""

import logging

from penstock.metadata.image import TopicImage
from penstock.protocol.internal_topics import CLUSTER_METADATA, has_replicas

logger = logging.getLogger(__name__)


def may_have_replicas(topic: TopicImage) -> bool:
    """Whether brokers hold replicas of it; one that takes the name of the metadata log is complained of."""
    if topic.name == CLUSTER_METADATA:
        logger.error(
            "the metadata have a topic called %s, but its log is the metadata log: no broker holds a replica of it."
            " An earlier version let it be created: `penstock topics --delete --topic %s` removes it",
            topic.name,
            topic.name,
        )
    return has_replicas(topic.name)
