"""Topics that a source writes to and that are not there yet: `topic.creation.*` says how they are made (KIP-158)."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix

PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"
GROUPS: Final = ConfigKey(
    f"{PREFIX}groups", "list", (), "Groups of new topics that are made alike, by names of one's own.", importance="low"
)
_PATTERNS: Final = ("include", "exclude")
_COUNTS: Final = ("partitions", "replication.factor")


class TopicGroup(Value):
    """`include` None takes every topic."""

    include: tuple[str, ...] | None
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def takes(self, topic: str) -> bool:
        return self.include is None or (_is_one_of(topic, self.include) and not _is_one_of(topic, self.exclude))

    def new_topic(self, name: str) -> NewTopic:
        return NewTopic(
            name=name, partitions=self.partitions, replication_factor=self.replication_factor, configs=self.configs
        )


def topic_groups(config: Mapping[str, str]) -> tuple[TopicGroup, ...]:
    """In their order, the default group at the end; none where the brokers make topics. ConfigError."""
    if not with_prefix(config, PREFIX):
        return ()
    names: tuple[str, ...] = GROUPS.parse(config.get(GROUPS.name))
    if len(set(names)) < len(names):
        raise ConfigError({GROUPS.name: [f"{GROUPS.name}={config[GROUPS.name]} names a group twice"]})
    default = _group(DEFAULT, config, None)
    return (*(_group(name, config, default) for name in names if name != DEFAULT), default.replace(include=None))


def _group(name: str, config: Mapping[str, str], default: TopicGroup | None) -> TopicGroup:
    """The numbers that a group does not give are those of the default group, which has to give both."""
    prefix = f"{PREFIX}{name}."
    numbers = (default.partitions, default.replication_factor) if default is not None else (None, None)
    keys = [ConfigKey(f"{prefix}{key}", "list", (), check=_check_patterns) for key in _PATTERNS]
    keys += [
        ConfigKey(
            f"{prefix}{key}",
            "int",
            number,
            "who uses topic.creation says how many there are, -1 for the broker's number",
            required=number is None,
            least=-1,
            check=_check_count,
        )
        for key, number in zip(_COUNTS, numbers, strict=True)
    ]
    values = parse(keys, config)
    own = with_prefix(config, prefix)
    configs = {key: value for key, value in own.items() if key not in (*_PATTERNS, *_COUNTS)}
    include, exclude, partitions, factor = (values[key.name] for key in keys)
    return TopicGroup(include, exclude, partitions, factor, configs)


def _check_patterns(text: str) -> None:
    try:
        re.compile("|".join(part.strip() for part in text.split(",")))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text} is no pattern: {error}") from None


def _check_count(text: str) -> None:
    if int(text) == 0:
        raise ValueError("0: a topic has one or more of them, and -1 stands for the broker's number")


def _is_one_of(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, topic) is not None for pattern in patterns)


class NewTopics:
    def __init__(self, groups: tuple[TopicGroup, ...], new_admin: Callable[[], Admin]) -> None:
        self._groups = groups
        self._new_admin = new_admin

    async def make(self, topic: str) -> None:
        """Unless it is there, or the brokers make it; KafkaError."""
        if not self._groups:
            return
        group = next(group for group in self._groups if group.takes(topic))
        async with self._new_admin() as admin:
            if not await admin.topics.is_there(topic):
                await admin.topics.create_unless_there(group.new_topic(topic))
