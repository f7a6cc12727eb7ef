"""Metrics in rows of text, as DescribeMetrics tells them: the group of each, and its name.

What has labels is called after them (`group-3.epoch`). A distribution makes several rows, in the dialect of its group:
Kafka has two libraries of metrics, and the younger one writes its groups with dashes (`commit-latency-avg`).
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Group, Labels, Registry
from penstock.protocol.requests.own_apis import Metric


def metric_rows(registry: Registry) -> list[Metric]:
    """Group by group, and within a group what stands for itself before what has labels.

    It costs as much as there are topics and partitions, so ask every few seconds at most.
    """
    found: dict[Group, dict[Labels, list[Metric]]] = {group: {(): []} for group in Group}
    for metric in registry:
        group = metric.group
        for labels, value in metric.samples():
            name = "".join(f"{label}-{of}." for label, of in zip(metric.labels, labels, strict=True)) + metric.name
            rows = found[group].setdefault(labels, [])
            rows += (Metric(group=group.type_name, name=row, value=text) for row, text in _texts(group, name, value))
    return [row for of_group in found.values() for rows in of_group.values() for row in rows]


def _texts(group: Group, name: str, value: float | str | Distribution) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Distribution):
        yield name, _text(value)
    elif "-" in group.type_name:
        yield f"{name}-avg", _text(value.mean)
        yield f"{name}-max", _text(value.max)
    else:
        yield f"{name}.count", _text(value.count)
        yield f"{name}.mean", _text(value.mean)
        yield f"{name}.max", _text(value.max)


def _text(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
