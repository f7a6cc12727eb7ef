"""What may be set on topics, brokers, groups and client metrics: the controller's view of the config definitions."""

from collections.abc import Iterable, Mapping

from penstock.controller.decision import TopicConfigEntry
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import ConfigSource, Layers, broker_text, topic_entries, topic_text
from penstock.metadata.configs.resources import check_change, check_settings, definition_of, is_list
from penstock.metadata.image import ClusterImage, ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode, KafkaError


class DefinedConfigs:
    """`static` is what this node's file says about brokers."""

    def __init__(self, static: Mapping[str, str]) -> None:
        self._static = static
        self._described: tuple[object, list[TopicConfigEntry]] | None = None

    def check(self, image: ClusterImage, resource: ConfigResource, settings: Mapping[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG, or INVALID_REQUEST for a broker, as Kafka does."""
        try:
            check_settings(resource, settings, self._layers(image))
        except ConfigError as error:
            raise _refusal(resource, error) from None

    def check_changes(self, resource: ConfigResource, changes: Iterable[tuple[str, str | None]]) -> None:
        """Refuses what a resource may keep, but not get anew. Raises KafkaError as `check`."""
        try:
            for key, text in changes:
                if text is not None:
                    check_change(resource, key, text)
        except ConfigError as error:
            raise _refusal(resource, error) from None

    def is_list(self, resource: ConfigResource, key: str) -> bool:
        return is_list(resource, key)

    def value_of(self, image: ClusterImage, resource: ConfigResource, key: str) -> str | None:
        overrides = image.configs.get(resource, {})
        if resource.resource_type is ResourceType.TOPIC:
            return topic_text(overrides, self._layers(image), key)
        if resource.resource_type is ResourceType.BROKER:
            own = (ConfigSource.DYNAMIC_BROKER, overrides)
            return broker_text((own, *self._layers(image)), key)
        definition = definition_of(resource, key)
        return overrides.get(key, definition.default if definition is not None else None)

    def topic_entries(self, image: ClusterImage, settings: Mapping[str, str]) -> list[TopicConfigEntry]:
        key = tuple(settings.items()), tuple(image.config_of(ResourceType.BROKER, "").items())
        if self._described is None or self._described[0] != key:
            # Most topics are created like the one before: only what changed is computed again.
            self._described = key, self._describe(image, settings)
        return self._described[1]

    def _describe(self, image: ClusterImage, settings: Mapping[str, str]) -> list[TopicConfigEntry]:
        return sorted(
            (
                TopicConfigEntry(
                    entry.definition.name, entry.value, entry.source, entry.definition.sensitive, entry.read_only
                )
                for entry in topic_entries(settings, self._layers(image))
            ),
            key=lambda entry: entry.name,
        )

    def _layers(self, image: ClusterImage) -> Layers:
        defaults = image.config_of(ResourceType.BROKER, "")
        return ((ConfigSource.DYNAMIC_DEFAULT_BROKER, defaults), (ConfigSource.STATIC_BROKER, self._static))


def _refusal(resource: ConfigResource, error: ConfigError) -> KafkaError:
    is_brokers = resource.resource_type is ResourceType.BROKER
    return KafkaError(ErrorCode.INVALID_REQUEST if is_brokers else ErrorCode.INVALID_CONFIG, str(error))
