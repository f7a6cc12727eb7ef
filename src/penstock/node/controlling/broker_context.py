"""What all parts of a broker have in common: the node, the way to the controller, its life in the cluster."""

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.controlling.commands import ActiveController
from penstock.node.controlling.lease import BrokerLease
from penstock.node.environment.context import NodeContext
from penstock.protocol.value import Value


class BrokerContext(Value):
    """Made once for each life of a broker; what it holds changes, it does not."""

    node: NodeContext
    controller: ActiveController
    lease: BrokerLease

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    @property
    def image(self) -> ClusterImage:
        return self.node.image

    @property
    def broker_epoch(self) -> int:
        """Of this registration; -1 before the first."""
        return self.lease.broker_epoch

    def now_ms(self) -> int:
        return self.node.now_ms()
