"""DescribeMetrics 0, an API of our own: what this node says of itself in numbers.

They are told in rows of text: the group of each, and its name. What has labels is called after them (`group-3.epoch`).
A distribution makes several rows, in the dialect of its group: Kafka has two libraries of metrics, and the younger one
writes its groups with dashes (`commit-latency-avg`).

Besides, of each topic with `penstock.delay.enable` it is told how many records wait in what is led here.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from penstock.metadata.configs.definitions import is_true
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Group, Labels, Registry
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import DescribeMetricsRequest, DescribeMetricsResponse, Metric

DELAYED: Final = "delayed-records"
MOST_DELAYED: Final = 1_000
"""Topics."""
LOOKED_AT: Final = 500
"""Settings of topics, and partitions, in a step."""


@handles(OwnApiKey.DESCRIBE_METRICS, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_metrics(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeMetricsRequest
) -> Steps[DescribeMetricsResponse]:
    rows = yield from metric_steps(node.metrics, of_the_whole=request.of_the_whole)
    if isinstance(node, Broker):
        rows += yield from waiting(node)
    return DescribeMetricsResponse(node_id=node.node_id, metrics=rows)


def waiting(broker: Broker) -> Steps[list[Metric]]:
    """Nothing of a topic of which nothing is led here."""
    rows: list[Metric] = []
    pace = Pace(LOOKED_AT)
    for resource, settings in list(broker.image.configs.items()):
        if pace.is_due():
            yield None
        if not is_true(settings.get(DELAY_ENABLE)):
            continue
        counts = []
        for one in broker.partitions.of_topic(resource.name):
            if pace.is_due():
                yield None
            if (now := one.waiting) is not None:
                counts.append(now[0])
        if counts:
            rows.append(Metric(group=DELAYED, name=f"topic-{resource.name}.waiting", value=str(sum(counts))))
        if len(rows) == MOST_DELAYED:
            break
    return rows


def metric_rows(registry: Registry) -> list[Metric]:
    """All rows at once."""
    steps = metric_steps(registry)
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        rows: list[Metric] = stop.value
        return rows


def metric_steps(registry: Registry, *, of_the_whole: bool = False) -> Steps[list[Metric]]:
    """Group by group, and within a group what stands for itself before what has labels, unless only `of_the_whole`.

    It costs as much as there are topics and partitions, so ask every few seconds at most.
    """
    found: dict[Group, dict[Labels, list[Metric]]] = {group: {(): []} for group in Group}
    for metric in list(registry):
        yield None
        group = metric.group
        samples = takewhile(lambda one: not one[0], metric.samples()) if of_the_whole else metric.samples()
        for labels, value in samples:
            name = (
                "".join(f"{label}-{of}." for label, of in zip(metric.labels, labels, strict=bool(labels))) + metric.name
            )
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
