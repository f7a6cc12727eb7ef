"""What a page tells of each partition is found in short steps, whether they are led here or not."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from penstock.node.metrics.registry import Registry
from penstock.node.monitoring.page import LINES_A_STEP, page_steps
from penstock.node.monitoring.pages import GZIP_WINDOW, LEVEL
from penstock.node.monitoring.partitions import LOOKED_AT, MOST_UNWELL, PartitionSurvey


class Followed:
    """A partition of which another node is the leader; all looks at it are counted."""

    looks: ClassVar[int] = 0
    log = SimpleNamespace(is_loaded=False, is_untouched=False)
    topic, topic_id = "orders", 7

    def __init__(self, index: int) -> None:
        self.index = index

    @property
    def leader(self) -> None:
        Followed.looks += 1


class Held:
    def __iter__(self) -> Any:
        return iter([Followed(index) for index in range(20 * LOOKED_AT)])

    def untouched_counts(self) -> list[Any]:
        return []


def test_no_step_looks_at_very_many_of_others() -> None:
    broker = SimpleNamespace(
        partitions=Held(), replicas=SimpleNamespace(offline=()), image=SimpleNamespace(brokers={}), node_id=1
    )
    survey, registry = PartitionSurvey(cast("Any", broker), lambda topic: True, tells_each=True), Registry()
    survey.register(registry)
    for steps in (survey.steps(), page_steps(registry, is_open=False)):
        before = Followed.looks
        for _ in steps:
            assert Followed.looks - before <= max(LOOKED_AT, LINES_A_STEP)
            before = Followed.looks
        assert Followed.looks - before <= LOOKED_AT
    assert (survey.held, survey.led) == (20 * LOOKED_AT, 0)


NOW_MS = 1_700_000_000_000


class Led:
    """A partition of which this node is the leader, in a cluster of three."""

    topic_id = 7
    waiting: tuple[int, int] | None = None

    def __init__(self, number: int, in_sync: int = 3) -> None:
        self.topic, self.index = f"a-topic-with-a-name-{number // 10:05d}", number % 10
        self.high_watermark, self.log_start_offset = 123_456_789 + number, 1_000 + number
        self.log = SimpleNamespace(is_loaded=True, size_bytes=987_654_321 + number, has_known_ends=True)
        self.leader = SimpleNamespace(
            isr=range(in_sync), replicas=range(3), needed_replicas=2, is_preferred=True, leader_epoch=1
        )


class Partitions(list[Led]):
    """And those of the topic `idle`, of one replica each, which nobody has asked for yet."""

    idle = 0

    def untouched_counts(self) -> list[tuple[int, int]]:
        return [(8, self.idle)] if self.idle else []

    def untouched_of(self, topic_id: int) -> list[Any]:
        assert topic_id == 8
        return [SimpleNamespace(topic="idle", partition=index) for index in range(self.idle)]


def page_of(partitions: list[Led], *, tells_each: bool, idle: int = 0) -> bytes:
    held = Partitions(partitions)
    held.idle = idle
    broker = SimpleNamespace(
        partitions=held,
        replicas=SimpleNamespace(offline=()),
        image=SimpleNamespace(topics_by_id={8: SimpleNamespace(name="idle")} if idle else {}, brokers={}),
        node_id=1,
        now_ms=lambda: NOW_MS,
    )
    survey, registry = PartitionSurvey(cast("Any", broker), lambda topic: True, tells_each=tells_each), Registry()
    survey.register(registry)
    result(survey.steps())
    page: bytes = result(page_steps(registry, is_open=False))
    return page


def result(steps: Any) -> Any:
    try:
        given = next(steps)
        while True:
            given = steps.send(given() if callable(given) else None)
    except StopIteration as end:
        return end.value


def test_each_partition_has_three_short_lines_when_all_is_well() -> None:
    """So that a page of 100,000 partitions is 5 MB at most as Prometheus asks for it: packed."""
    count = 2_000
    page = page_of([Led(number) for number in range(count)], tells_each=True)
    of_partitions = [line for line in page.splitlines() if b'partition="' in line and b'partition=""' not in line]
    assert len(of_partitions) == 3 * count
    assert len(zlib.compress(page, LEVEL, GZIP_WINDOW)) <= 50 * count
    assert b'kafka_topic_partition_in_sync_replica{topic="a-topic-with-a-name-00000"} 30\n' in page


def test_what_waits_to_be_due_is_told_by_topic_with_the_latest_of_it() -> None:
    partitions = [Led(number) for number in range(10, 13)]
    for partition, waiting in zip(partitions, [(7, NOW_MS + 5_000), (5, NOW_MS - 90), (1, NOW_MS - 30)], strict=True):
        partition.waiting = waiting
    page = page_of([Led(0), *partitions], tells_each=False)
    told = [line for line in page.splitlines() if line.startswith(b"penstock_delayed_")]
    assert told == [
        b'penstock_delayed_records{topic="a-topic-with-a-name-00001"} 13',
        b'penstock_delayed_late_milliseconds{topic="a-topic-with-a-name-00001"} 90',
    ]


def test_all_that_are_not_well_are_told_where_each_is() -> None:
    partitions = [Led(number, in_sync=1) for number in range(MOST_UNWELL + 10)]
    for tells_each in (False, True):
        page = page_of([*partitions, Led(9_999_990)], tells_each=tells_each)
        told = [line for line in page.splitlines() if line.startswith(b"kafka_cluster_partition_underminisr{")]
        assert len([line for line in told if line.endswith(b" 1")]) == (MOST_UNWELL + 10 if tells_each else MOST_UNWELL)
        of_topics = {topic for topic, _ in (str(line).split('",partition="') for line in told if line.endswith(b" 1"))}
        well = [line for line in told if line.endswith(b" 0")]
        assert all(b'partition=""' in line and str(line).split('",partition="')[0] not in of_topics for line in well)
        assert well[-1].startswith(b'kafka_cluster_partition_underminisr{topic="a-topic-with-a-name-999999",')


def test_those_that_nobody_has_asked_for_have_the_figures_of_all_others() -> None:
    ends = ("kafka_topic_partition_current_offset", "kafka_topic_partition_oldest_offset", "kafka_log_log_size")
    for tells_each, labels in (
        (False, ['topic="idle"']),
        (True, ['topic="idle",partition="0"', 'topic="idle",partition="1"']),
    ):
        told = page_of([], tells_each=tells_each, idle=2).decode().splitlines()
        assert {f"{name}{{{of_it}}} 0" for name in ends for of_it in labels} <= set(told)
        assert 'kafka_topic_partition_replicas{topic="idle"} 2' in told
        assert "kafka_server_replicamanager_atminisrpartitioncount 2" in told
