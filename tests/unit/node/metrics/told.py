"""What a registry tells of a group, without labels, by the names of the metrics."""

from typing import Any

from penstock.node.metrics.registry import Group, Registry


def told(registry: Registry, group: Group) -> dict[str, Any]:
    of_group = (metric for metric in registry if metric.group is group)
    return {metric.name: value for metric in of_group for labels, value in metric.samples() if not labels}
