"""Records that wait in a topic: every replica has to know how, so that whichever leads delivers them.

One that does not would deliver at once what is to wait, deliver nothing of what waits, and let retention take it. So
the level of `penstock.delay.version` goes up with the first topic that needs it, when all nodes run at it; from then on
no broker registers that does not.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from penstock.controller.registrations import runs_at
from penstock.metadata.brokers import Feature
from penstock.metadata.configs.definitions import is_true
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.features import DELAY_LEVEL, DELAY_VERSION
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.protocol.errors import ErrorCode, KafkaError


def may_wait(settings: Mapping[str, str]) -> bool:
    """Whether records of a topic with these settings may wait."""
    return is_true(settings.get(DELAY_ENABLE))


def level_for(
    image: ClusterImage, settings: Mapping[str, str], present: Mapping[str, str] = MappingProxyType({})
) -> list[MetadataRecord]:
    """What comes before a topic gets these settings. Raises KafkaError UNSUPPORTED_VERSION where a node cannot, unless
    records of it may wait at `present`, as in a topic that was made before there was this level: its other settings
    can be changed, whoever is there.
    """
    if not may_wait(settings) or image.features.get(DELAY_VERSION, 0) >= DELAY_LEVEL:
        return []
    for node, features in runs_at(image):
        if features.get(DELAY_VERSION, Feature(0, 0)).newest < DELAY_LEVEL:
            if may_wait(present):
                return []
            message = (
                f"{DELAY_ENABLE}: {node} does not know how records wait. Start a newer release there,"
                " or unregister it if it is gone"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    return [FeatureLevelRecord(name=DELAY_VERSION, feature_level=DELAY_LEVEL)]


def topics_that_wait(image: ClusterImage) -> Iterator[str]:
    for resource, settings in image.configs.items():
        if resource.resource_type is ResourceType.TOPIC and may_wait(settings):
            yield resource.name
