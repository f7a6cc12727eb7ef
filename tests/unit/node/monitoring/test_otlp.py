"""What is pushed, read by the official definitions."""

from collections.abc import Iterator

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Labels, Metric, StateSet
from penstock.node.monitoring import otlp
from penstock.node.monitoring.otlp import Origin, request_steps

ORIGIN = Origin([("service.name", "penstock"), ("service.instance.id", "7")], began_ns=5)
NOW_NS = 1_700_000_000_000_000_001


def requests(*metrics: Metric) -> Iterator[ExportMetricsServiceRequest]:  # type: ignore[type-arg]
    steps = request_steps(metrics, ORIGIN, NOW_NS)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return (ExportMetricsServiceRequest.FromString(one) for one in end.value)


def only(*metrics: Metric) -> dict:  # type: ignore[type-arg]
    """By their names, out of the one request that they make."""
    (request,) = requests(*metrics)
    (of_resource,) = request.resource_metrics
    assert {one.key: one.value.string_value for one in of_resource.resource.attributes} == {
        "service.name": "penstock", "service.instance.id": "7",
    }  # fmt: skip
    (of_scope,) = of_resource.scope_metrics
    return {metric.name: metric for metric in of_scope.metrics}


def test_a_counter_is_a_total_that_only_grows() -> None:
    read: dict[Labels, int] = {("a",): 3, ("b",): (1 << 60) + 1}
    counter = Counter(Group.TOPICS, "MessagesInPerSec", "Records", lambda: read, labels=("topic",))
    metric = only(counter)["kafka_server_brokertopicmetrics_messagesin_total"]
    assert (metric.description, metric.sum.is_monotonic, metric.sum.aggregation_temporality) == ("Records", True, 2)
    points = {point.attributes[0].value.string_value: point for point in metric.sum.data_points}
    assert {name: point.as_int for name, point in points.items()} == {"a": 3, "b": (1 << 60) + 1}
    assert {point.attributes[0].key for point in points.values()} == {"topic"}
    assert {(point.start_time_unix_nano, point.time_unix_nano) for point in points.values()} == {(5, NOW_NS)}


def test_gauges_may_be_fractions_and_states_are_attributes() -> None:
    found = only(
        Gauge(Group.NODE, "Share", "", lambda: -0.25),
        StateSet(Group.QUORUM, "current-state", "", lambda: "leader", states=("leader", "voted")),
    )
    assert found["penstock_share"].gauge.data_points[0].as_double == -0.25
    (point,) = found["kafka_server_raftmetrics_current_state"].gauge.data_points
    assert point.as_int == 1
    assert [(one.key, one.value.string_value) for one in point.attributes] == [("current_state", "leader")]


def test_distributions_are_what_they_are_on_the_page() -> None:
    times = Distribution(per_unit=1_000_000)
    for number in (1, 1 << 18, 1 << 20, 1 << 62):
        times.observe(number)
    by = ("request",)
    found = only(
        Histogram(Group.NODE, "RequestSeconds", "", lambda: {("Fetch",): times}, "seconds", by),
        Histogram(Group.REQUESTS, "TotalTimeMs", "", lambda: {("Fetch",): times}, labels=by),
        Histogram(Group.QUORUM, "election-latency", "", lambda: times),
    )
    (point,) = found["penstock_request_seconds"].histogram.data_points
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert (point.count, sum(point.bucket_counts), point.bucket_counts[0], point.bucket_counts[-1]) == (4, 4, 1, 1)
    assert list(point.explicit_bounds) == sorted(point.explicit_bounds)
    assert point.attributes[0].value.string_value == "Fetch"
    (summary,) = found["kafka_network_requestmetrics_totaltimems"].summary.data_points
    assert (summary.count, summary.sum) == (4, times.sum)
    assert [one.quantile for one in summary.quantile_values][:2] == [0.5, 0.75]
    assert found["kafka_server_raftmetrics_election_latency_max"].gauge.data_points[0].as_double == times.max


def test_no_request_is_much_larger_than_the_limit() -> None:
    size = 60_000
    many = Gauge(Group.PLAIN, "a", "", lambda: (((number,), 1) for number in range(size)), labels=("n",))
    made = list(requests(many, Gauge(Group.PLAIN, "b", "", lambda: 2)))
    assert len(made) > 1
    assert all(one.ByteSize() < otlp.LARGEST + 1000 for one in made)
    metrics = [metric for one in made for metric in one.resource_metrics[0].scope_metrics[0].metrics]
    assert sum(len(metric.gauge.data_points) for metric in metrics) == size + 1
