"""The page of figures, read by the parsers of Prometheus' own library, in both formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from penstock.node.metrics.counted import register_counts
from penstock.node.metrics.counts import NodeCounts
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Metric, Registry, StateSet
from penstock.node.monitoring.names import family_of
from penstock.node.monitoring.page import CHUNKS_AT_ONCE, LINES_A_STEP, page_steps
from penstock.node.serving.slices import Steps
from penstock.protocol.requests.api import ApiKey


def page(metrics: Iterable[Metric[Any]], *, is_open: bool = False) -> str:
    return to_its_end(page_steps(metrics, is_open=is_open)).decode()


def to_its_end(steps: Steps[bytes]) -> bytes:
    work: Any = None
    try:
        while True:
            work = steps.send(None if work is None else work())
    except StopIteration as stop:
        return bytes(stop.value)


def samples(metrics: Iterable[Metric[Any]], *, is_open: bool) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = page(list(metrics), is_open=is_open)
    families: Iterable[Family] = cast("Any", read_open if is_open else read_text)(text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


BOTH = pytest.mark.parametrize("is_open", [False, True])


def gauge(group: Group, name: str) -> Gauge:
    return Gauge(group, name, "", lambda: 0)


def counter(group: Group, name: str) -> Counter:
    return Counter(group, name, "", lambda: 0)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (counter(Group.TOPICS, "MessagesInPerSec"), "kafka_server_brokertopicmetrics_messagesin_total"),
        (gauge(Group.HANDLERS, "IdlePercent"), "kafka_server_kafkarequesthandlerpool_idle_percent"),
        (gauge(Group.QUORUM, "current-leader"), "kafka_server_raftmetrics_current_leader"),
        (counter(Group.SOCKETS, "connection-close-total"), "kafka_server_socket_server_metrics_connection_close_total"),
        (gauge(Group.PARTITIONS, "UnderMinIsr"), "kafka_cluster_partition_underminisr"),
        (gauge(Group.STORAGE_GROUPS, "log-bytes"), "penstock_storage_groups_log_bytes"),
        (counter(Group.LEASE, "LeaseLostCount"), "penstock_broker_lease_lease_lost_total"),
        (gauge(Group.NODE, "LogDirectoryFreeBytes"), "penstock_log_directory_free_bytes"),
        (gauge(Group.PLAIN, "kafka_consumergroup_lag"), "kafka_consumergroup_lag"),
    ],
)
def test_a_name_is_what_strimzis_rules_make_of_kafkas(metric: Metric[Any], name: str) -> None:
    assert family_of(metric).name == name


@BOTH
def test_what_a_node_counts_can_be_read_and_keeps_its_last_digit(is_open: bool) -> None:
    counts, registry = NodeCounts(), Registry()
    register_counts(registry, counts)
    fetch = counts.api(ApiKey.FETCH, 19, splits=True)
    fetch.done(17, 1_000_000)
    fetch.of_nodes.done(18, 5)
    fetch.of_nodes.waiting += 1
    fetch.failed(6)
    counts.topics.enter("orders").bytes_in = (1 << 53) - 1
    counts.listener("PLAINTEXT").created = 3
    found = samples(registry, is_open=is_open)
    in_bytes = "kafka_server_brokertopicmetrics_bytesin_total"
    assert found[in_bytes, frozenset({("topic", "orders")})] == (1 << 53) - 1
    assert found[in_bytes, frozenset()] == (1 << 53) - 1
    requests = "kafka_network_requestmetrics_requests_total"
    assert found[requests, frozenset({("request", "FetchFollower"), ("version", "18")})] == 1
    errors = "kafka_network_requestmetrics_errors_total"
    assert found[errors, frozenset({("request", "FetchConsumer"), ("error", "NOT_LEADER_OR_FOLLOWER")})] == 1
    waiting = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert found[waiting, frozenset({("delayedOperation", "Fetch")})] == 1
    median = frozenset({("request", "FetchConsumer"), ("quantile", "0.5")})
    assert 0.5 < found["kafka_network_requestmetrics_totaltimems", median] <= 1


@BOTH
def test_buckets_are_cumulative_and_count_all(is_open: bool) -> None:
    took = Distribution(per_unit=1_000_000)
    for milliseconds in (1, 20, 20, 300_000):
        took.observe(milliseconds * 1_000_000)
    found = samples([Histogram(Group.NODE, "RequestSeconds", "", lambda: took)], is_open=is_open)
    name = "penstock_request_seconds"
    assert found[f"{name}_count", frozenset()] == 4
    assert found[f"{name}_sum", frozenset()] == pytest.approx(300.041)
    buckets = {
        float(dict(labels)["le"]): value for (sample, labels), value in found.items() if sample.endswith("bucket")
    }
    assert list(buckets.values()) == sorted(buckets.values())
    assert [value for edge, value in buckets.items() if edge in (0.001048576, 0.033554432)] == [1, 3]
    assert buckets[float("inf")] == 4


@BOTH
def test_two_figures_of_a_distribution_and_the_state_stand_as_kafkas_younger_library_has_them(is_open: bool) -> None:
    took = Distribution(per_unit=1000)
    took.observe(1500)
    state = StateSet(Group.QUORUM, "current-state", "", lambda: "leader", states=("leader",))
    found = samples([Histogram(Group.QUORUM, "commit-latency", "", lambda: took), state], is_open=is_open)
    assert found == {
        ("kafka_server_raftmetrics_commit_latency_avg", frozenset()): 1.5,
        ("kafka_server_raftmetrics_commit_latency_max", frozenset()): 1.5,
        ("kafka_server_raftmetrics_current_state", frozenset({("current_state", "leader")})): 1,
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
def test_no_label_can_end_its_quotes(name: str, is_open: bool) -> None:
    hostile = Gauge(Group.PLAIN, "a", 'says "so"\n# EOF', lambda: {(name,): 7}, labels=("group",))
    assert samples([hostile], is_open=is_open) == {("a", frozenset({("group", name)})): 7}


def test_a_step_makes_few_lines() -> None:
    many = Gauge(Group.PLAIN, "a", "", lambda: (((number,), 1) for number in range(10 * LINES_A_STEP)), labels=("n",))
    steps = page_steps([many], is_open=False)
    assert sum(1 for _ in steps) >= 10


def test_a_thread_puts_a_long_page_together() -> None:
    def page_of(lines: int) -> Gauge:
        return Gauge(Group.NODE, "Many", "", lambda: {(str(n),): n for n in range(lines)}, labels=("number",))

    for chunks, is_work in ((CHUNKS_AT_ONCE - 1, False), (CHUNKS_AT_ONCE, True)):
        works = [step for step in page_steps([page_of(chunks * LINES_A_STEP)], is_open=False) if step is not None]
        assert bool(works) is is_work
    assert page([page_of(chunks * LINES_A_STEP)]).count("\n") == chunks * LINES_A_STEP + 2
