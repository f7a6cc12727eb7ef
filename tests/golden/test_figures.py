"""All that a node's surveys tell of what they have looked at, as a page for Prometheus and for a collector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest
from google.protobuf.text_format import MessageToString
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from penstock.metadata.image import ClusterImage
from penstock.node.api.describe_metrics import metric_rows, metric_steps
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Metric, Registry, StateSet, Unknown
from penstock.node.monitoring import clients, groups, otlp, partitions, process
from penstock.node.monitoring import page as page_of
from penstock.node.monitoring.clients import ClientSurvey
from penstock.node.monitoring.groups import GroupSurvey
from penstock.node.monitoring.otlp import Origin, request_steps
from penstock.node.monitoring.page import page_steps
from penstock.node.monitoring.partitions import PartitionSurvey
from penstock.node.monitoring.process import ProcessSurvey
from penstock.node.telemetry.otlp import Point
from penstock.node.telemetry.receiver import TelemetryReceiver
from penstock.node.telemetry.subscriptions import Attributes

FOLDER: Final = Path(__file__).parent
NOW_MS = 1_700_000_000_000
FIVE: Final = Gauge(Group.PLAIN, "many", "m", lambda: {(n,): n for n in range(5)}, labels=("n",))


def told(survey: Any) -> list[str]:
    """The lines of its page, without what says what they mean."""
    registry = Registry()
    survey.register(registry)
    to_its_end(survey.steps())
    lines: list[str] = to_its_end(page_steps(registry, is_open=False)).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def given(steps: Any) -> Iterator[Any]:
    """What is given up between the steps: nothing, or work; then the result."""
    try:
        work = next(steps)
        while True:
            yield work
            work = steps.send(work() if callable(work) else None)
    except StopIteration as end:
        yield end.value


def origin() -> Origin:
    return Origin([("service.name", "penstock"), ("service.instance.id", "7")], began_ns=5)


def to_its_end(steps: Any) -> Any:
    *_, result = given(steps)
    return result


def turns(steps: Any) -> int:
    return len(list(given(steps))) - 1


def partition(topic: str, index: int, size: int | None = 100, **leader: Any) -> SimpleNamespace:
    """`size`: None where its log is not read in; `leader`: none where another node leads."""
    waiting = leader.pop("waiting", None)
    knows_ends = leader.pop("knows_ends", True)
    log = SimpleNamespace(
        is_loaded=size is not None, is_untouched=False, size_bytes=size or 999, has_known_ends=knows_ends
    )
    return SimpleNamespace(
        topic=topic,
        index=index,
        topic_id=f"id of {topic}",
        log=log,
        log_start_offset=10 + index,
        high_watermark=1000 + index,
        waiting=waiting,
        leader=SimpleNamespace(**leader) if leader else None,
    )


def lead(in_sync: int, needed: int, replicas: int, *, is_preferred: bool = True) -> dict[str, Any]:
    return {
        "isr": range(in_sync),
        "needed_replicas": needed,
        "replicas": range(replicas),
        "is_preferred": is_preferred,
    }


class Held(list[Any]):
    """And two partitions of `idle`, one of a topic that is gone, which nobody has asked for."""

    def untouched_counts(self) -> list[tuple[str, int]]:
        return [("id of idle", 2), ("id of gone", 1)]

    def untouched_of(self, topic_id: str) -> list[Any]:
        count = dict(self.untouched_counts())[topic_id]
        return [SimpleNamespace(topic=topic_id.split()[-1], partition=index) for index in range(count)]


def survey_of_partitions(*, tells_each: bool) -> PartitionSurvey:
    def image(adding: Sequence[int] = (), removing: Sequence[int] = ()) -> SimpleNamespace:
        return SimpleNamespace(adding_replicas=adding, removing_replicas=removing)

    held = Held(
        [
            partition("a", 0, **lead(3, 2, 3), waiting=(7, NOW_MS - 40)),
            partition("a", 1, **lead(2, 2, 3, is_preferred=False), waiting=(5, NOW_MS - 90)),
            partition("a", 2, **lead(1, 2, 3)),
            partition("a", 3),
            partition("b", 0, None, **lead(1, 1, 1), knows_ends=False),
            partition("b", 1, 0, **lead(2, 2, 2)),
            partition("hidden", 0, **lead(1, 1, 1), waiting=(1, NOW_MS + 5)),
        ]
    )
    held[5].log.is_loaded, held[5].log.is_untouched = False, True
    of_a = {0: image(adding=(4,)), 1: image(removing=(1,)), 2: image()}
    endpoint = SimpleNamespace(host="broker-7", port=9092)
    later = SimpleNamespace(host="elsewhere", port=9093)
    broker = SimpleNamespace(
        partitions=held,
        replicas=SimpleNamespace(offline=("x", "y")),
        image=SimpleNamespace(
            topics_by_id={
                "id of a": SimpleNamespace(name="a", partitions=of_a),
                "id of idle": SimpleNamespace(name="idle", partitions={}),
            },
            brokers={7: SimpleNamespace(endpoints={"A": endpoint, "B": later})},
        ),
        node_id=7,
        now_ms=lambda: NOW_MS,
    )
    return PartitionSurvey(cast("Any", broker), lambda topic: topic != "hidden", tells_each=tells_each)


class Groups:
    """What a coordinator has: groups of two shards."""

    def __init__(self) -> None:
        self.of_shards = (
            {("one", "classic", "Stable"): {"orders": {0: 40, 1: 130, 2: 5}, "gone": {0: 3}}},
            {
                ("two", "consumer", "Assigning"): {"orders": {0: 100}, "idle": {0: 1, 1: 9}},
                ("three", "share", "Empty"): {},
                ("five", "consumer", "Empty"): {},
                ("six", "classic", "Empty"): {},
                ("four", "classic", "Dead"): {},
            },
        )

    def serving(self) -> Iterator[SimpleNamespace]:
        for number, shard in enumerate(self.of_shards):
            listed = [SimpleNamespace(group_id=name, group_type=kind, group_state=state) for name, kind, state in shard]
            offsets = {
                name: {
                    topic: {index: SimpleNamespace(offset=offset) for index, offset in of.items()}
                    for topic, of in topics.items()
                }
                for (name, _, _), topics in shard.items()
            }
            yield SimpleNamespace(
                machine=SimpleNamespace(
                    list_groups=lambda listed=listed: listed,
                    member_count=lambda name, number=number: len(name) + number,
                    offsets=lambda name, offsets=offsets: offsets[name],
                )
            )

    def rebalances(self) -> dict[str, tuple[int, int]]:
        return {"classic": (3, 700), "consumer": (4, 90)}


def survey_of_groups() -> GroupSurvey:
    table = SimpleNamespace(
        get=lambda topic, index: (
            SimpleNamespace(high_watermark=100 + index) if topic == "orders" and index < 2 else None
        ),
        get_untouched=lambda topic_id, index: (
            SimpleNamespace(log_end_offset=4) if (topic_id, index) == (9, 0) else None
        ),
    )
    broker = SimpleNamespace(
        groups=Groups(), partitions=table, image=SimpleNamespace(topics={"idle": SimpleNamespace(topic_id=9)})
    )
    return GroupSurvey(cast("Any", broker))


def survey_of_clients() -> ClientSurvey:
    receiver = TelemetryReceiver(ClusterImage(), 1000)
    for number, points in enumerate(
        (
            [Point("kafka_client_b", (), 1.5, False), Point("kafka_client_a", (("metric_x", "1"),), 2.0, False)],
            [Point("kafka_client_b", (), 7.0, False)],
            [Point("kafka_client_b", (), 8.0, False)],
        )
    ):
        attributes = Attributes(client_instance_id=UUID(int=number), client_id=f"c{number}")
        receiver.received.take(attributes, points, 1000, NOW_MS - 100_000 * (number == 2))
    receiver.pushes, receiver.unreadable = 11, 12
    receiver.clients.throttled, receiver.clients.unknown = 13, 14
    return ClientSurvey(receiver, lambda: NOW_MS)


def survey_of_process() -> ProcessSurvey:
    """Of two directories, one of which cannot be asked."""

    def space(path: str) -> tuple[int, int]:
        if path == "/lost":
            raise OSError
        return 1000, 400

    directories = SimpleNamespace(
        roots=SimpleNamespace(online=[SimpleNamespace(path=path) for path in ("/data", "/lost", "/more")]),
        open_files=SimpleNamespace(disk=SimpleNamespace(space=space)),
    )
    return ProcessSurvey(cast("Any", directories), 17.25)


def of_all_kinds() -> list[Metric[Any]]:
    times = Distribution(per_unit=1_000_000)
    for number in (1, 1 << 17, 1 << 18, 1 << 36, 1 << 37, 1 << 50):
        times.observe(number)
    empty = Distribution(per_unit=1000)
    by = ("request",)
    return [
        Gauge(Group.NODE, "GroupCount", 'a "word"\\', lambda: 3),
        Gauge(Group.NODE, "Share", "", lambda: {("x\n", 1): 0.25, ("y", 2): 1 << 63}, labels=("a.b", "c")),
        Counter(Group.LEASE, "LeaseLostCount", "", lambda: 4),
        Counter(Group.TOPICS, "BytesInPerSec", "Bytes", lambda: {(): 5, ("t",): 5}, labels=("topic",)),
        Counter(Group.SOCKETS, "connection-close-total", "", lambda: 6),
        Counter(Group.GROUP_COORDINATOR, "offset-commit-count", "", lambda: 7),
        Gauge(Group.SOCKETS, "idle-total", "", lambda: 7),
        Gauge(Group.HANDLERS, "RequestHandlerAvgIdlePercent", "", lambda: 0.5),
        Gauge(Group.QUORUM_CHANNEL, "a-b.c", "", lambda: 8),
        Gauge(Group.PLAIN, "plain_total", "", lambda: 9),
        Gauge(Group.PLAIN, "plain", "", lambda: -(1 << 63)),
        Unknown(Group.PLAIN, "kafka_client_x", "", lambda: {("c",): 1.5}, labels=("client",)),
        StateSet(Group.QUORUM, "current-state", "", lambda: "leader", states=("leader", "voted")),
        Histogram(Group.NODE, "RequestSeconds", "", lambda: {("Fetch",): times, ("Vote",): empty}, "seconds", by),
        Histogram(Group.REQUESTS, "TotalTimeMs", "", lambda: {("Fetch",): times, ("Vote",): empty}, labels=by),
        Histogram(Group.QUORUM, "commit-latency", "", lambda: times),
        Histogram(Group.GROUP_COORDINATOR, "election-latency", "", lambda: empty),
    ]


def page(*, is_open: bool) -> list[str]:
    text: str = to_its_end(page_steps(of_all_kinds(), is_open=is_open)).decode()
    return text.splitlines()


def pushed() -> list[str]:
    (sent,) = to_its_end(request_steps(of_all_kinds(), origin(), NOW_MS * 1_000_000))
    text: str = MessageToString(ExportMetricsServiceRequest.FromString(sent))
    return text.splitlines()


def answered(*, of_the_whole: bool) -> Iterator[str]:
    registry = Registry()
    registry.add(*of_all_kinds())
    rows = to_its_end(metric_steps(registry, of_the_whole=of_the_whole))
    assert of_the_whole or rows == metric_rows(registry)
    yield from (f"{row.group} {row.name} {row.value!r}" for row in rows)


def steps_of(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """How often others have a turn, where steps are small."""
    for module in (partitions, groups, clients):
        patch.setattr(module, "LOOKED_AT", 2)
    patch.setattr(page_of, "LINES_A_STEP", 3)
    patch.setattr(otlp, "LINES_A_STEP", 3)
    surveys: dict[str, Any] = {
        "partitions": survey_of_partitions(tells_each=False),
        "each partition": survey_of_partitions(tells_each=True),
        "groups": survey_of_groups(),
        "clients": survey_of_clients(),
    }
    for name, survey in surveys.items():
        yield f"{name}: {turns(survey.steps())}"
    yield f"the page: {turns(page_steps(of_all_kinds(), is_open=False))}"
    yield f"the request: {turns(request_steps(of_all_kinds(), origin(), 1))}"
    for count in (1, 2):
        patch.setattr(page_of, "CHUNKS_AT_ONCE", count)
        works = sum(callable(step) for step in given(page_steps([FIVE], is_open=False)))
        yield f"of five lines, {count} chunks at once: {works} in a thread"
    nothing = Registry()
    survey_of_nothing().register(nothing)
    yield from (f"{metric.name}: {dict(metric.samples())}" for metric in nothing if metric.name == "group-count")


def survey_of_nothing() -> GroupSurvey:
    return GroupSurvey(cast("Any", SimpleNamespace()))


def requests_of(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """How points are spread where a request may have few bytes."""
    for largest in (*(28, 29, 38, 39, 77, 78, 116, 117, 123, 155, 156, 191, 192, 195, 232, 233), 10_000):
        patch.setattr(otlp, "LARGEST", largest)
        sent = to_its_end(request_steps([FIVE, Gauge(Group.PLAIN, "one", "", lambda: 1), FIVE], origin(), 1))
        read = [ExportMetricsServiceRequest.FromString(one).resource_metrics[0].scope_metrics[0] for one in sent]
        points = (
            " ".join(f"{metric.name} {len(metric.gauge.data_points)}" for metric in scope.metrics) for scope in read
        )
        yield f"{largest}: {' '.join(str(len(one)) for one in sent)} bytes: {', '.join(points)}"
    yield f"nothing: {to_its_end(request_steps([], origin(), 1))}"


def all_that_is_told(patch: pytest.MonkeyPatch) -> Iterator[str]:
    yield from ("# Partitions by topic.", *told(survey_of_partitions(tells_each=False)))
    yield from ("", "# Each partition.", *told(survey_of_partitions(tells_each=True)))
    yield from ("", "# Groups.", *told(survey_of_groups()))
    patch.setattr(groups, "MOST_ROWS", 3)
    patch.setattr(groups, "MOST_SUMS", 1)
    lines = (line for line in told(survey_of_groups()) if "consumergroup" in line)
    yield from ("", "# Groups, where there are too many for a row each.", *lines)
    of_clients = survey_of_clients()
    yield from ("", "# Clients.", *told(of_clients))
    yield from to_its_end(page_steps(of_clients.metrics(), is_open=False)).decode().splitlines()
    clock = iter((0.0, 0.9, 5.0, 9.0))
    used = iter((0.0, 0.1, 1.5, 2.0, 10.0, 11.0))
    patch.setattr(process, "time", SimpleNamespace(monotonic=clock.__next__, process_time=used.__next__))
    files = {"statm": "100 7 3", "io": "rchar: 1\nread_bytes: 40\nwrite_bytes: 50\n"}
    patch.setattr(process, "_read", files.__getitem__)
    patch.setattr(process, "os", SimpleNamespace(sysconf=lambda name: 4096, listdir=lambda path: ["0", "1", "2"]))
    of_process = survey_of_process()
    yield from ("", "# The process, after less than a second.", *told(of_process))
    del files["io"]
    yield from ("", "# After five, when some of it cannot be read.", *told(of_process))
    yield from ("", "# After four more, in which it had more than one CPU.", *told(of_process))
    yield from ("", "# All kinds, as text.", *page(is_open=False))
    yield from ("", "# As OpenMetrics.", *page(is_open=True))
    yield from ("", "# To a collector.", *pushed())
    yield from ("", "# In an answer.", *answered(of_the_whole=False))
    yield from ("", "# In an answer, without labels.", *answered(of_the_whole=True))
    yield from ("", "# To a collector, of few bytes.", *requests_of(patch))
    yield from ("", "# Steps.", *steps_of(patch))


def test_it_is_as_written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(all_that_is_told(monkeypatch)) + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / "figures.txt").write_text(text, encoding="utf-8")
    assert text == (FOLDER / "figures.txt").read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
