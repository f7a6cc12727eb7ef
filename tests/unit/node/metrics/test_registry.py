"""A registry tells all metrics as they are when it is asked, and each of them once."""

import pytest

from penstock.node.api.describe_metrics import metric_rows
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Labels, Registry, StateSet


def rows(registry: Registry) -> list[tuple[str, str, str]]:
    return [(row.group, row.name, row.value) for row in metric_rows(registry)]


def test_what_was_counted_meanwhile_is_told() -> None:
    counts, registry = {"failures": 0}, Registry()
    registry.add(Counter(Group.CONTROLLER, "failures", "Decisions that failed", lambda: counts["failures"]))
    assert rows(registry) == [("KafkaController", "failures", "0")]
    counts["failures"] += 2
    assert rows(registry) == [("KafkaController", "failures", "2")]


def test_a_name_is_given_once_in_a_group() -> None:
    registry = Registry()
    registry.add(Gauge(Group.LOGS, "count", "", lambda: 1), Gauge(Group.CLEANER, "count", "", lambda: 1))
    with pytest.raises(AssertionError, match="there is a count of LogManager already"):
        registry.add(Counter(Group.LOGS, "count", "", lambda: 1))


def test_what_has_labels_comes_and_goes_and_its_rows_stand_together() -> None:
    epochs: dict[Labels, float] = {(2,): 7, (1,): 4}
    registry, group = Registry(), Group.STORAGE_GROUPS
    registry.add(
        Gauge(group, "epoch", "", lambda: epochs, labels=("group",)),
        Gauge(group, "share", "", lambda: {of: 1 / epoch for of, epoch in epochs.items()}, labels=("group",)),
        Gauge(group, "count", "", lambda: len(epochs)),
    )
    assert [row[1:] for row in rows(registry)] == [
        ("count", "2"),
        ("group-2.epoch", "7"),
        ("group-2.share", "0.143"),
        ("group-1.epoch", "4"),
        ("group-1.share", "0.250"),
    ]
    del epochs[2,]
    assert [row[1] for row in rows(registry)] == ["count", "group-1.epoch", "group-1.share"]


def test_a_distribution_is_told_in_the_dialect_of_its_group() -> None:
    took, registry = Distribution(per_unit=1000), Registry()
    registry.add(
        Histogram(Group.CONTROLLER_QUEUE, "TimeMs", "", lambda: took, "milliseconds"),
        Histogram(Group.QUORUM, "latency", "", lambda: took, "milliseconds"),
        StateSet(Group.QUORUM, "state", "", lambda: "leader", states=("leader", "follower")),
    )
    took.observe(1_500)
    took.observe(2_500)
    assert rows(registry) == [
        ("raft-metrics", "latency-avg", "2.000"),
        ("raft-metrics", "latency-max", "2.500"),
        ("raft-metrics", "state", "leader"),
        ("ControllerEventManager", "TimeMs.count", "2"),
        ("ControllerEventManager", "TimeMs.mean", "2.000"),
        ("ControllerEventManager", "TimeMs.max", "2.500"),
    ]
