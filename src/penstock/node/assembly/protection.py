"""A node that is asked for protection which is not there yet does not serve: it would serve everybody.

| what asks                                                | when it is looked at                           |
| -------------------------------------------------------- | ---------------------------------------------- |
| keys of the node's file                                  | first of all                                   |
| metadata on a controller's disk                          | at the start, before anything there is touched |
| metadata that come from others                           | when all is here; then the node stops          |
| metadata that are committed while the node runs          | at once; then the node stops                   |

`penstock.security.ignored` lets it serve all the same; each start says then what it passes over. A topic of the name of
the metadata log, which an earlier version let clients create, is passed over as well, and complained of.

What is there is made here: the authorizer, and the quotas.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.protection import IGNORED_KEY, asked_by_keys
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord, MetadataRecord, RegisterBrokerRecord, TopicRecord
from penstock.metadata.resources import ResourceType
from penstock.metadata.security import SECURITY_RECORDS
from penstock.metadata.security_records import ClientQuotaRecord
from penstock.node.environment.context import NodeContext
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.connections import Throttling
from penstock.protocol.internal_topics import CLUSTER_METADATA

if TYPE_CHECKING:
    from penstock.node.serving.throttle import ClientThrottle

logger = logging.getLogger(__name__)

BY_METADATA: Final = "the cluster's metadata ask"
ASKS: Final[Mapping[str, str]] = {
    "access_rules": "access rules (ACLs), which authorizer.class.name makes this node obey",
}
"""Fields of `SecurityImage` that ask for protection if there is anything in them, and what that is."""


class UnprotectedError(Exception):
    """A node would have to ignore what it is asked to protect; the text names it, and what to do."""

    def __init__(self, source: str, asked: Iterable[str]) -> None:
        super().__init__(
            f"{source} for protection that is not there yet ({', '.join(asked)}), and without it everybody may do"
            f" everything: remove that where it was set, or set {IGNORED_KEY}=true to serve everybody"
        )


def check_keys(config: BrokerConfig) -> None:
    """Raises UnprotectedError for what the file asks for, KafkaError for keys of TLS or SASL that cannot be used."""
    _check("the configuration asks", list(asked_by_keys(config.asking)), config)
    if config.listeners_with_tls or config.ways_with_tls:
        from penstock.node.assembly.tls import check_tls

        check_tls(config)
    if config.listeners_with_sasl or config.ways_with_sasl:
        from penstock.node.assembly.sasl import check_sasl

        check_sasl(config)


def check_metadata(image: ClusterImage, config: BrokerConfig) -> None:
    """Raises UnprotectedError for what metadata ask for that were found at the start.

    Only a controller acts on them: what a broker has on its disk may have been taken back since, and it hears of that
    before it serves.
    """
    if config.is_controller:
        _check(BY_METADATA, list(asked_by_metadata(image, config)), config)


def asked_by_metadata(image: ClusterImage, config: BrokerConfig) -> Iterator[str]:
    """What asks for protection, in words; the configs of this node count, of registered brokers, and of all brokers."""
    names = [name for name in ASKS if name != "access_rules" or not config.has_authorizer]
    yield from (ASKS[name] for name in names if getattr(image.security, name))
    for name in dict.fromkeys(("", str(config.node_id), *map(str, image.brokers))):
        of = f"broker {name}" if name else "all brokers"
        yield from (f"{setting} of {of}" for setting in asked_by_keys(image.config_of(ResourceType.BROKER, name)))


def _check(source: str, asked: Sequence[str], config: BrokerConfig) -> None:
    if asked and not config.penstock_security_ignored:
        raise UnprotectedError(source, asked)


class Watch:
    """Looks at committed metadata, and has `fail` called with an UnprotectedError. Says what is passed over, once.

    It begins when this node has all metadata: what is read before that may have been taken back since.
    """

    def __init__(self, log: MetadataLog, config: BrokerConfig, fail: Callable[[Exception], None]) -> None:
        self._image = log.image
        self._config = config
        self._fail = fail
        self._said = ""
        self.has_begun = False
        """Whether this node has all metadata."""
        self._beginning: list[Callable[[], None]] = []
        self._has_namesake = False
        """Whether there is a topic of the metadata log's name."""
        log.add_listener(self._on_records, self._look)
        log.add_leader_listener(self._on_leader)
        log.add_caught_up_listener(self.begin)

    def begin(self) -> None:
        """This node leads the quorum, or has caught up with a leader: it knows what held a moment ago."""
        self.has_begun = True
        self._look()
        beginning, self._beginning = self._beginning, []
        for begin in beginning:
            begin()

    def when_begun(self, begin: Callable[[], None]) -> None:
        """To be called once: now, or when this node has all metadata."""
        self._beginning.append(begin)
        if self.has_begun:
            self.begin()

    def _on_leader(self, leader_id: int | None, epoch: int) -> None:
        if leader_id == self._config.node_id:
            self.begin()

    def _on_records(self, records: Iterable[MetadataRecord]) -> None:
        if any(type(record) in _LOOKED_AT and _may_ask(record) for record in records):
            self._look()

    def _look(self) -> None:
        """The cost does not depend on topics."""
        if not self.has_begun:
            return
        asked = list(asked_by_metadata(self._image, self._config))
        try:
            _check(BY_METADATA, asked, self._config)
        except UnprotectedError as error:
            self._fail(error)
            return
        passed_over = ", ".join(asked)
        if passed_over and passed_over != self._said:
            logger.warning("the cluster's metadata have %s, and nothing acts on them yet", passed_over)
        self._said = passed_over
        had_namesake, self._has_namesake = self._has_namesake, CLUSTER_METADATA in self._image.topics
        if self._has_namesake and not had_namesake:
            logger.error(
                "the metadata have a topic called %s, but its log is the metadata log: no broker holds a replica of it."
                " An earlier version let it be created: `penstock topics --delete --topic %s` removes it",
                CLUSTER_METADATA,
                CLUSTER_METADATA,
            )


_LOOKED_AT: Final = frozenset((ConfigRecord, TopicRecord, RegisterBrokerRecord, *SECURITY_RECORDS))


def _may_ask(record: MetadataRecord) -> bool:
    if isinstance(record, ConfigRecord):
        return record.resource_type == ResourceType.BROKER
    return not isinstance(record, TopicRecord) or record.name == CLUSTER_METADATA


def authorizer_of(context: NodeContext, log: MetadataLog, watch: Watch) -> Authorizer:
    """Who may do what: everybody everything where the keys name no authorizer."""
    if not context.config.has_authorizer:
        return ALLOW_ALL
    from penstock.node.quorum.standard_authorizer import standard_authorizer

    return standard_authorizer(context.config, log, context.metrics, lambda: watch.has_begun)


def throttling_of(context: NodeContext, log: MetadataLog, authorizer: Authorizer) -> Throttling[ClientThrottle]:
    """Who may take how much: it follows the committed quotas; most clusters have none."""

    def load() -> ClientThrottle:
        from penstock.node.assembly.quotas import client_throttle

        return client_throttle(context, authorizer)

    throttling = Throttling(load)

    def on_records(records: Sequence[MetadataRecord]) -> None:
        for record in records:
            if type(record) is ClientQuotaRecord:
                throttling.change(methodcaller("apply", record))

    def reload() -> None:
        quotas = log.image.security.client_quotas
        if quotas or throttling.is_loaded:
            throttling.change(methodcaller("replace", quotas.values()))

    log.add_listener(on_records, reload)
    return throttling
