"""Which topic may take the dead letters of a share group, and how one is made that is missing (KIP-1191)."""

from __future__ import annotations

from typing import Final

from penstock.coordinator.effects import ToController
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.coordinators.errands import Errands
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import is_internal
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

ENABLE: Final = "errors.deadletterqueue.group.enable"
DEFAULT: Final = -1
TIMEOUT_MS: Final = 5_000


def why_not(name: str, source: str, image: ClusterImage, config: BrokerConfig) -> str | None:
    """Why the topic `name` takes no dead letters of records of the topic `source`, and what helps; None if it does."""
    prefix = config.errors_deadletterqueue_topic_name_prefix
    if not name:
        return "the group has no topic of dead letters any more: set its errors.deadletterqueue.topic.name"
    if is_internal(name) or name.startswith("__"):
        return f"{name} is a topic of the cluster's own: set another errors.deadletterqueue.topic.name"
    if name == source:
        return f"{name} would get its own records as dead letters again: set another errors.deadletterqueue.topic.name"
    if not name.startswith(prefix):
        return f"the name {name} does not begin with {prefix!r}, as errors.deadletterqueue.topic.name.prefix wants it"
    if name in image.topics:
        if image.config_of(ResourceType.TOPIC, name).get(ENABLE, "").lower() != "true":
            return f"the topic {name} is not for dead letters: set its {ENABLE}=true"
    elif not config.errors_deadletterqueue_auto_create_topics_enable:
        made = f"create it with {ENABLE}=true, or set errors.deadletterqueue.auto.create.topics.enable=true"
        return f"there is no topic {name}: {made}"
    return None


async def create(name: str, errands: Errands) -> None:
    """It is there as soon as the metadata say so. Raises KafkaError."""
    configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}  # by its letters' own time they are kept
    topic = CreatableTopic(
        name=name,
        num_partitions=DEFAULT,
        replication_factor=DEFAULT,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = await errands.done(ToController(request, CreateTopicsResponse))
    for result in answer.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), f"the topic {name} cannot be made: {result.error_message}")
