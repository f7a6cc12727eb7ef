"""What all parts of a node have in common: its configuration, environment, disks, metadata and metrics."""

from penstock.log.directories.directory import LogDirectories
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.environment.environment import Environment
from penstock.node.metrics.counts import NodeCounts
from penstock.node.metrics.registry import Registry
from penstock.protocol.value import Value, fresh


class NodeContext(Value):
    """Made once for each life of a node; what it holds changes, it does not."""

    config: BrokerConfig
    environment: Environment
    directories: LogDirectories
    image: ClusterImage
    """The committed metadata."""
    metrics: Registry
    counts: NodeCounts = fresh(NodeCounts)

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def now_ms(self) -> int:
        """The wall clock."""
        return self.environment.now_ms()
