"""What enforces the quotas of clients on a node: which of its APIs and listeners are for nodes, and its metrics."""

import asyncio

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.quotas.machine import Windows
from penstock.node.environment.context import NodeContext
from penstock.node.serving.handler import load_handlers
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.node.serving.throttle import ClientThrottle


def client_throttle(context: NodeContext) -> ClientThrottle:
    return ClientThrottle(
        windows_of(context.config),
        asyncio.get_running_loop().time,
        nodes_apis=[key for key, handler in load_handlers().items() if handler.rule is BETWEEN_NODES],
        nodes_listeners=context.config.node_listeners,
    )


def windows_of(config: BrokerConfig) -> Windows:
    return Windows(
        config.quota_window_size_seconds,
        config.controller_quota_window_size_seconds * config.controller_quota_window_num,
    )
