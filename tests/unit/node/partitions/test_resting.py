"""A partition that only time brings work is not looked at before its time, and is again once something changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, Node, node_on, topic_records

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import PartitionImage, ResourceType
from penstock.metadata.records import ConfigRecord
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.upkeep import UpkeepIntervals
from penstock.protocol.records import Record, encode_batch

DAY_MS = 86_400_000
MINUTE_MS = 60_000
OTHER = NODE_ID + 1


class Looks:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.partition = node.partition()
        assert isinstance(self.partition, IsrPartition)
        self.seen = 0

    async def during(self, ms: int, step_ms: int = MINUTE_MS) -> int:
        """How often somebody looks at the log in this time."""
        before = self.seen
        for _ in range(ms // step_ms):
            self.node.now_ms += step_ms
            await self.node.upkeep.checkpoint_high_watermarks()
            await self.node.upkeep.run_due()
            await self.node.upkeep._looks.settle()
        return self.seen - before

    async def rest(self) -> None:
        self.node.produce(b"a")
        self.node.upkeep.watch(self.partition)
        await self.during(10 * MINUTE_MS)

    @property
    def start(self) -> int:
        return self.partition.log.log_start_offset


LooksAt = Callable[..., AbstractContextManager[Looks]]


@pytest.fixture
def looks_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LooksAt:
    @contextmanager
    def looked_at(**configs: Any) -> Iterator[Looks]:
        with node_on(tmp_path, *topic_records(**configs)) as node:
            looks, retain = Looks(node), IsrPartition.retain

            def noted(partition: IsrPartition, now_ms: int) -> int:
                looks.seen += 1
                return retain(partition, now_ms)

            monkeypatch.setattr(IsrPartition, "retain", noted)
            yield looks

    return looked_at


async def test_nobody_looks_at_a_log_before_its_records_are_too_old(looks_at: LooksAt) -> None:
    with looks_at(retention_ms=str(2 * DAY_MS)) as looks:
        await looks.rest()
        assert await looks.during(2 * DAY_MS - 11 * MINUTE_MS) == 0
        assert await looks.during(2 * MINUTE_MS) == 1
        assert looks.start == 1
        assert await looks.during(10 * DAY_MS, 10 * MINUTE_MS) <= 1, "it is empty"


async def test_one_that_keeps_all_for_ever_is_not_looked_at_again(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1") as looks:
        await looks.rest()
        heap = len(looks.node.upkeep._heap)
        assert await looks.during(30 * DAY_MS, 10 * MINUTE_MS) == 0
        assert heap == 0


async def test_one_that_grows_is_looked_at_again(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1", retention_bytes="1") as looks:
        await looks.rest()
        looks.partition.log.load().roll(1, NOW_MS)
        looks.partition.log.flush()
        looks.node.produce(b"b")
        assert await looks.during(6 * MINUTE_MS) >= 1
        assert looks.start == 1
        await looks.during(10 * MINUTE_MS)
        assert await looks.during(DAY_MS) == 0


async def test_however_often_it_rests_one_deadline_is_kept(looks_at: LooksAt) -> None:
    with looks_at(retention_ms=str(100 * DAY_MS)) as looks:
        for _ in range(20):
            await looks.rest()
        assert len(looks.node.upkeep._heap) == 1


async def test_a_producer_is_forgotten_in_its_time(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1") as looks:
        records = bytes(encode_batch([Record(0, NOW_MS, None, b"x")], producer_id=7, producer_epoch=0, base_sequence=0))
        looks.partition.append(memoryview(bytearray(records)), acks=1, now_ms=NOW_MS)
        await looks.rest()
        assert await looks.during(DAY_MS - 12 * MINUTE_MS) == 0
        assert len(looks.partition.log.producers) == 1
        await looks.during(3 * MINUTE_MS)
        assert not len(looks.partition.log.producers)


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup_policy": "compact,delete"},
        {"flush_ms": "1000"},
        {"retention_consumed": "true"},
        {"penstock_delay_enable": "true"},
    ],
    ids=str,
)
async def test_one_that_others_bring_work_is_looked_at_all_the_time(looks_at: LooksAt, configs: dict[str, str]) -> None:
    with looks_at(retention_ms="-1", **configs) as looks:
        records = bytearray(encode_batch([Record(0, NOW_MS, b"k", b"x")]))
        looks.partition.append(memoryview(records), acks=1, now_ms=NOW_MS)
        looks.node.upkeep.watch(looks.partition)
        await looks.during(10 * MINUTE_MS)
        assert await looks.during(60 * MINUTE_MS) >= 12


async def test_one_whose_records_are_not_on_all_replicas_is_too(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1") as looks:
        looks.partition.obey(NODE_ID, PartitionImage(NODE_ID, 4, 4, (NODE_ID, OTHER), (NODE_ID, OTHER)), 0)
        await looks.rest()
        assert await looks.during(60 * MINUTE_MS) >= 12
        looks.partition.on_fetched(OTHER, 1, 9, looks.node.now_ms)
        await looks.during(10 * MINUTE_MS)
        assert await looks.during(60 * MINUTE_MS) == 0


async def test_where_checkpoints_are_rarer_than_looks_nobody_rests(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1") as looks:
        looks.node.upkeep._intervals = UpkeepIntervals(high_watermark_checkpoint_ms=DAY_MS)
        await looks.rest()
        assert await looks.during(60 * MINUTE_MS) >= 12


async def test_one_that_begins_later_is_looked_at_again(looks_at: LooksAt) -> None:
    with looks_at(retention_ms="-1") as looks:
        await looks.rest()
        looks.partition.begin_at(1)
        assert await looks.during(6 * MINUTE_MS) >= 1


async def test_one_whose_log_was_left_while_it_rested_is_looked_at_when_it_grows(looks_at: LooksAt) -> None:
    """A cut that finds no room leaves it so, and tells nobody; the records come later."""
    with looks_at(retention_ms=str(DAY_MS)) as looks:
        await looks.rest()
        never = ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.ms", value=str(1000 * DAY_MS)
        )
        looks.node.commit(never)
        await looks.during(10 * MINUTE_MS)
        looks.partition.log.flush()
        looks.partition.log.abandon()
        await looks.during(2 * DAY_MS, 10 * MINUTE_MS)
        looks.node.produce(b"b")
        assert await looks.during(10 * MINUTE_MS) >= 1


async def test_one_that_could_not_be_looked_after_does_not_rest(
    looks_at: LooksAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    with looks_at(retention_ms="-1", retention_bytes="0") as looks:
        looks.node.produce(b"a")
        looks.node.upkeep.watch(looks.partition)
        with monkeypatch.context() as broken:
            broken.setattr(PartitionLog, "apply_retention", lambda *_, **__: 1 // 0)
            assert await looks.during(10 * MINUTE_MS) >= 1
        await looks.during(10 * MINUTE_MS)
        assert looks.start == 1


async def test_the_clock_is_looked_at_though_all_rest(looks_at: LooksAt) -> None:
    """It may be set, and a machine that slept has not counted that as waiting."""
    with looks_at(retention_ms=str(2 * DAY_MS)) as looks:
        await looks.rest()
        assert looks.node.upkeep._resting
        wait_s = looks.node.upkeep._seconds_to_next()
        assert wait_s is not None
        assert wait_s <= 5 * MINUTE_MS / 1000
