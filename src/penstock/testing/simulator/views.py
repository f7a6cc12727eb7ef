"""What the simulation looks at in a node that runs."""

from penstock.metadata.image import ClusterImage
from penstock.node.assembly.start import RunningNode
from penstock.node.partitions.table import PartitionTable


def image_of(node: RunningNode) -> ClusterImage:
    return node.parts.context.image


def partitions_of(node: RunningNode) -> PartitionTable:
    return node.broker.partitions if node.is_broker else PartitionTable()
