"""What the simulation looks at in a node that runs."""

from __future__ import annotations

from penstock.metadata.image import ClusterImage
from penstock.node.assembly.start import RunningNode
from penstock.node.partitions.table import PartitionTable


def image_of(node: RunningNode) -> ClusterImage:
    """The metadata that the node has applied."""
    return node.parts.context.image


def partitions_of(node: RunningNode) -> PartitionTable:
    """The replicas that it holds."""
    return node.broker.partitions if node.is_broker else PartitionTable()
