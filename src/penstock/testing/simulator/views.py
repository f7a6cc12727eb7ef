"""What the simulation looks at in a node that runs."""

from __future__ import annotations

from penstock.metadata.image import ClusterImage
from penstock.node.partitions.table import PartitionTable
from penstock.node.start import RunningNode


def image_of(node: RunningNode) -> ClusterImage:
    """The metadata that the node has applied."""
    return node.parts.image


def partitions_of(node: RunningNode) -> PartitionTable:
    """The replicas that it holds."""
    return node.broker.partitions if node.is_broker else PartitionTable()
