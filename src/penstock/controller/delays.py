"""Records that wait in topics of storage groups: every replica has to know how, so that whichever leads delivers them.

The level of `penstock.delay.version` goes up with the first topic that needs it, when all nodes run at it; from then on
no broker registers that does not.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from penstock.controller.registrations import runs_at
from penstock.metadata.brokers import Feature
from penstock.metadata.configs.definitions import is_true
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.features import DELAY_VERSION, GROUPS_DELAY_LEVEL
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.replication_mode import asks_for_consensus
from penstock.protocol.errors import ErrorCode, KafkaError


def waits_in_a_group(settings: Mapping[str, str]) -> bool:
    """Whether records of a topic with these settings may wait, and its storage group has to deliver them."""
    return is_true(settings.get(DELAY_ENABLE)) and asks_for_consensus(settings)


def level_for(
    image: ClusterImage, settings: Mapping[str, str], present: Mapping[str, str] = MappingProxyType({})
) -> list[MetadataRecord]:
    """What comes before a topic gets these settings. Raises KafkaError UNSUPPORTED_VERSION where a node cannot, unless
    records of it may wait at `present`, as in a topic that was made before there was this level: its other settings
    can be changed, whoever is there.
    """
    if not waits_in_a_group(settings) or image.features.get(DELAY_VERSION, 0) >= GROUPS_DELAY_LEVEL:
        return []
    for node, features in runs_at(image):
        if features.get(DELAY_VERSION, Feature(0, 0)).newest < GROUPS_DELAY_LEVEL:
            if waits_in_a_group(present):
                return []
            message = (
                f"{DELAY_ENABLE}: {node} does not know how records wait in a storage group. Start a newer release"
                " there, or unregister it if it is gone;"
                " a topic with replication.mode=isr may have its replicas on other brokers alone"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    return [FeatureLevelRecord(name=DELAY_VERSION, feature_level=GROUPS_DELAY_LEVEL)]


def topics_that_wait_in_groups(image: ClusterImage) -> Iterator[str]:
    for resource, settings in image.configs.items():
        if resource.resource_type is ResourceType.TOPIC and waits_in_a_group(settings):
            yield resource.name
