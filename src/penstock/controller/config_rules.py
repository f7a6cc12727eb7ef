"""What may be set on topics, brokers, groups and client metrics: the controller's view of the config definitions."""

from collections.abc import Mapping

from penstock.controller.decision import TopicConfigEntry
from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.definitions import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    Definitions,
    UpdateMode,
    nearest_key,
    parse_value,
)
from penstock.metadata.configs.effective import (
    ConfigSource,
    Layers,
    broker_text,
    definitions_of_topic,
    topic_entries,
    topic_text,
)
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from penstock.metadata.image import ClusterImage, ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode, KafkaError

_DEFINITIONS: dict[ResourceType, Definitions] = {
    ResourceType.TOPIC: definitions_of_topic(),
    ResourceType.BROKER: BROKER_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}


class DefinedConfigs:
    """The rules that the definitions make; `static` is what this node's file says about brokers."""

    def __init__(self, static: Mapping[str, str]) -> None:
        self._static = static

    def check(self, resource: ConfigResource, settings: Mapping[str, str]) -> None:
        """Refuses unknown keys, values that a key does not allow, and broker keys that only a restart changes.

        Raises KafkaError with INVALID_CONFIG, or INVALID_REQUEST for a key that cannot change while brokers run.
        """
        definitions = _DEFINITIONS[resource.resource_type]
        for key, text in settings.items():
            definition = definitions.get(key)
            if definition is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, _unknown(resource.resource_type, key, definitions))
            try:
                parse_value(definition, text)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
            if resource.resource_type is ResourceType.BROKER:
                _check_mode(definition, resource)

    def is_list(self, resource: ConfigResource, key: str) -> bool:
        """Whether `key` holds a list; an unknown key does not."""
        definition = _DEFINITIONS[resource.resource_type].get(key)
        return definition is not None and definition.type is ConfigType.LIST

    def value_of(self, image: ClusterImage, resource: ConfigResource, key: str) -> str | None:
        """What `key` has now: set for the resource, else what stands behind it."""
        overrides = image.configs.get(resource, {})
        if resource.resource_type is ResourceType.TOPIC:
            return topic_text(overrides, self._layers(image), key)
        if resource.resource_type is ResourceType.BROKER:
            own = (ConfigSource.DYNAMIC_BROKER, overrides)
            return broker_text((own, *self._layers(image)), key)
        definition = _DEFINITIONS[resource.resource_type].get(key)
        return overrides.get(key, definition.default if definition is not None else None)

    def topic_entries(self, image: ClusterImage, settings: Mapping[str, str]) -> list[TopicConfigEntry]:
        """All configs that a topic with these settings has, by name."""
        entries = topic_entries(settings, self._layers(image))
        return sorted(
            (
                TopicConfigEntry(
                    entry.definition.name, entry.value, entry.source, entry.definition.sensitive, entry.read_only
                )
                for entry in entries
            ),
            key=lambda entry: entry.name,
        )

    def _layers(self, image: ClusterImage) -> Layers:
        defaults = image.config_of(ResourceType.BROKER, "")
        return ((ConfigSource.DYNAMIC_DEFAULT_BROKER, defaults), (ConfigSource.STATIC_BROKER, self._static))


def _unknown(resource_type: ResourceType, key: str, definitions: Definitions) -> str:
    like = nearest_key(key, definitions)
    hint = f"; did you mean {like}?" if like else ""
    return f"{key}: no config of a {resource_type.name.lower().replace('_', ' ')} is called so{hint}"


def _check_mode(definition: ConfigDefinition, resource: ConfigResource) -> None:
    if definition.mode is UpdateMode.READ_ONLY:
        message = f"{definition.name}: it changes only by a restart with another configuration file"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if definition.mode is UpdateMode.PER_BROKER and not resource.name:
        message = f"{definition.name}: it is set for one broker at a time, not as a default for all"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
