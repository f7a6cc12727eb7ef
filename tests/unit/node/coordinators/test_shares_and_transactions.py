"""Coordinators of share partitions and of transactions: what they hear of metadata and hand on, and what they tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.contexts import embedded

from penstock.coordinator.shards.shares import ShareShard
from penstock.coordinator.shards.transactions import TransactionShard
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord, NoOpRecord, RemoveTopicRecord, TopicRecord
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.coordinators.shares import ShareCoordinator
from penstock.node.coordinators.transaction_metrics import register_transactions
from penstock.node.coordinators.transactions import TransactionCoordinator
from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Registry
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import SHARE_GROUP_STATE, TRANSACTION_STATE

TOPIC = TopicRecord(name="t", topic_id=UUID(int=1))
GONE = RemoveTopicRecord(topic_id=UUID(int=1))
LEVEL = FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2)


class Hosted:
    """A partition that is coordinated here: what it was told. One that is being read does not serve yet."""

    def __init__(self, *, is_serving: bool = True) -> None:
        self.told: list[Any] = []
        self.is_serving = is_serving
        self.machine = SimpleNamespace(topics_deleted="topics deleted", set_version=self.told.append)

    def put(self, event: object) -> None:
        self.told.append(event)


class Followed:
    """Records how often hosts followed the metadata."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[Any] = []
        monkeypatch.setattr(CoordinatorHost, "on_metadata", lambda _, records: self.heard.append(records))
        monkeypatch.setattr(CoordinatorHost, "on_new_image", lambda _: self.heard.append("new image"))


@pytest.mark.parametrize(
    ("records", "forgets", "level"),
    [
        ([TOPIC, NoOpRecord()], False, False),
        ([TOPIC, GONE], True, False),
        ([GONE], True, False),
        ([TOPIC, LEVEL], False, True),
        ([LEVEL], False, True),
        ([], False, False),
        (None, True, True),
    ],
)
def test_of_which_records_machines_hear(
    monkeypatch: pytest.MonkeyPatch, records: list[MetadataRecord] | None, forgets: bool, level: bool
) -> None:
    followed = Followed(monkeypatch)
    image = ClusterImage()
    image.features[TRANSACTION_VERSION] = 2
    for kind, tells, told in (
        (ShareCoordinator, [["topics deleted"], []], forgets),
        (TransactionCoordinator, [[2], [2]], level),
    ):
        host: Any = kind.__new__(kind)
        serves, loads = Hosted(), Hosted(is_serving=False)
        host._led, host.context = {0: serves, 1: loads}, SimpleNamespace(image=image)
        followed.heard.clear()
        if records is None:
            host.on_new_image()
        else:
            host.on_metadata(records)
        assert followed.heard == ["new image" if records is None else records]
        assert [serves.told, loads.told] == (tells if told else [[], []])


class Made:
    """What a host of a coordinator is made with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: list[Any] = []
        self.how: dict[str, int] = {}

        def made(host: Any, topic: str, context: Any, new_machine: Any, compression: Any, **how: int) -> None:
            self.of, self.how = [topic, new_machine, compression], how
            host.context, host.load_time, host._led = context, Durations(), {}

        monkeypatch.setattr(CoordinatorHost, "__init__", made)


def test_what_share_coordinators_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made, context = Made(monkeypatch), SimpleNamespace(image=ClusterImage())
    config = embedded(
        share_coordinator_state_topic_compression_codec="1",
        share_coordinator_write_timeout_ms="17",
        share_coordinator_snapshot_update_records_per_snapshot="11",
        share_coordinator_cold_partition_snapshot_interval_ms="12",
        share_coordinator_state_topic_prune_interval_ms="13",
    )
    ShareCoordinator(config, cast("Any", context))
    topic, new_machine, compression = made.of
    assert (topic, compression, made.how) == (SHARE_GROUP_STATE, Compression(1), {"patience_ms": 17})
    assert isinstance(new_machine(3), ShareShard)


def test_what_transaction_coordinators_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made, context, registry = Made(monkeypatch), SimpleNamespace(image=ClusterImage()), Registry()
    config = embedded(offsets_commit_timeout_ms="19")
    host = TransactionCoordinator(config, cast("Any", context), registry)
    topic, new_machine, compression = made.of
    assert (topic, compression, made.how) == (TRANSACTION_STATE, Compression.NONE, {"patience_ms": 19})
    assert host.version == 0, "a cluster that has not set it"
    context.image.features[TRANSACTION_VERSION] = 2
    assert host.version == 2
    assert isinstance(new_machine(3), TransactionShard)
    assert [one.name for one in registry] == ["partition-load-time", "id-count", "open-count", "prepared-count"]


def test_transactions_are_counted_over_all_partitions() -> None:
    registry, load_time = Registry(), Durations()
    hosts: list[Any] = [
        SimpleNamespace(machine=SimpleNamespace(counts=lambda at=at: (1 * at, 10 * at, 100 * at))) for at in (1, 2)
    ]
    register_transactions(registry, lambda: hosts, load_time)
    times, *gauges = registry
    assert [one.read() for one in gauges] == [3, 30, 300]
    assert [found for _, found in times.samples()] == [load_time]


@pytest.mark.parametrize(
    ("key", "is_known"),
    [
        (f"g:{UUID(int=1)}:0", False),
        ("g", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:7", True),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", False),
    ],
)
def test_who_coordinates_what_is_a_share_partition(monkeypatch: pytest.MonkeyPatch, key: str, is_known: bool) -> None:
    monkeypatch.setattr(CoordinatorHost, "coordinator", lambda _, key, listener: (key, listener))
    host: Any = ShareCoordinator.__new__(ShareCoordinator)
    if is_known:
        assert host.coordinator(key, "A") == (key, "A")
    else:
        with pytest.raises(KafkaError) as refused:
            host.coordinator(key, "A")
        assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_keys_of_coordinators_have_their_numbers() -> None:
    assert [host.key_type for host in (GroupCoordinator, TransactionCoordinator, ShareCoordinator)] == [0, 1, 2]


@pytest.mark.parametrize("partitions", [None, 0])
def test_keys_of_a_topic_that_is_not_there_go_nowhere(partitions: int | None) -> None:
    host: Any = ShareCoordinator.__new__(ShareCoordinator)
    topics = {} if partitions is None else {SHARE_GROUP_STATE: SimpleNamespace(partitions=[])}
    host.topic_name, host.departures = SHARE_GROUP_STATE, {}
    host.context = SimpleNamespace(image=SimpleNamespace(topics=topics))
    assert host.departure_of(["g"]) is None
