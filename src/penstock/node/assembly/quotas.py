"""What enforces the quotas of clients on a node: which of its APIs and listeners are for nodes, and its metrics."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.quotas.bucket import Bucket
from penstock.metadata.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from penstock.metadata.quotas.machine import Windows
from penstock.node.environment.context import NodeContext
from penstock.node.metrics.registry import Counter, Group, Labels
from penstock.node.serving.access import ALLOW_ALL, CLUSTER_ACTION, Authorizer
from penstock.node.serving.handler import load_handlers
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.node.serving.session import ANONYMOUS, NODES_CLIENT_ID, Session
from penstock.node.serving.throttle import ClientThrottle
from penstock.protocol.acls import CLUSTER_NAME

LABELS: Final = ("user", "client-id")
_FIGURES: Final = (
    (Group.PRODUCE_QUOTAS, PRODUCER_BYTE_RATE, "byte-total", "Bytes of produce requests of who share the quota"),
    (Group.FETCH_QUOTAS, CONSUMER_BYTE_RATE, "byte-total", "Bytes of answers with records to who share the quota"),
    (Group.REQUEST_QUOTAS, REQUEST_PERCENTAGE, "request-time-total", "The event loop's time for them, in ms"),
    (Group.MUTATION_QUOTAS, CONTROLLER_MUTATION_RATE, "mutation-total", "Partitions that they made and deleted"),
)


class Nodes:
    """Which clients are nodes: by their listener, or by their client id, and what says that it is theirs.

    Where nodes have no name nothing says so, and on their listener clients as well are known by their ids alone.
    """

    def __init__(self, config: BrokerConfig, authorizer: Authorizer) -> None:
        self._listeners = frozenset(config.node_listeners)
        self._between = config.inter_broker_listener_name
        self._authorizer = authorizer
        self._user: str | None = None
        if config.inter_broker_listener_name in config.ways_with_sasl:
            from penstock.node.assembly.sasl import login_at

            self._user = login_at(config, config.inter_broker_listener_name).user

    def has(self, session: Session, client_id: str) -> bool:
        if session.listener in self._listeners:
            return True
        if session.listener != self._between or NODES_CLIENT_ID.fullmatch(client_id) is None:
            return False
        if self._authorizer is not ALLOW_ALL:
            return self._authorizer.has(session, CLUSTER_ACTION, CLUSTER_NAME)
        return session.principal.name == (ANONYMOUS.name if self._user is None else self._user)


def client_throttle(context: NodeContext, authorizer: Authorizer) -> ClientThrottle:
    handlers = load_handlers() if context.config.is_broker else {}
    throttle = ClientThrottle(
        windows_of(context.config),
        asyncio.get_running_loop().time,
        nodes_apis=[key for key, handler in handlers.items() if handler.rule is BETWEEN_NODES],
        is_node=Nodes(context.config, authorizer).has,
    )
    for group, key, name, what in _FIGURES:
        context.metrics.add(
            Counter(group, name, what, partial(_read, throttle, key, _taken), labels=LABELS),
            Counter(
                group,
                "throttle-time-total",
                "For how long its clients were told to wait",
                partial(_read, throttle, key, _throttled),
                "milliseconds",
                LABELS,
            ),
        )
    return throttle


def _read(throttle: ClientThrottle, key: str, value_of: Callable[[Bucket], int]) -> Mapping[Labels, int]:
    return {
        (share.user or "", share.client_id or ""): value_of(bucket)
        for share, bucket in throttle.machine.items(throttle.now_ms())
        if share.key == key
    }


def _taken(bucket: Bucket) -> int:
    return int(bucket.taken)


def _throttled(bucket: Bucket) -> int:
    return bucket.throttled_ms


def windows_of(config: BrokerConfig) -> Windows:
    return Windows(
        config.quota_window_size_seconds,
        config.controller_quota_window_size_seconds * config.controller_quota_window_num,
    )
