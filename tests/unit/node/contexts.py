"""What the parts of a broker have in common, in a test."""

from collections.abc import Callable
from typing import Any, cast

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.controlling.lease import BrokerLease
from penstock.node.environment.context import NodeContext
from penstock.node.environment.environment import Environment
from penstock.node.metrics.registry import Registry


def node_context(
    config: BrokerConfig,
    image: ClusterImage,
    directories: Any = None,
    now_ms: Callable[[], int] = lambda: 0,
    **outside: Any,
) -> NodeContext:
    """Of a node without disks, if none are given; `outside` are parts of its environment."""
    environment = Environment(**{"now_ms": now_ms, "clock_ns": lambda: 0, **outside})
    return NodeContext(config, environment, directories, image, Registry())


def broker_context(node: NodeContext, controller: Any = None, epoch: int = 5) -> BrokerContext:
    """Of a broker that is registered with that epoch, and whose lease lasts."""
    lease = BrokerLease(9_000, lambda: 0.0, Registry())
    lease.broker_epoch = epoch
    return BrokerContext(node, cast("Any", controller), lease)


def embedded(node_id: int = 1, **settings: str) -> BrokerConfig:
    """A configuration; names have underscores in place of dots."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.embedded({"node.id": str(node_id), **named})
