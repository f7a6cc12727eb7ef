"""The cleaner: the dirtiest log first, what happens to a log meanwhile, and what it says of itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.contexts import node_context
from tests.unit.node.metrics.told import told
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.log.compaction.rounds import Cleaned, Round, Step
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord, MetadataRecord, RemoveTopicRecord
from penstock.node.environment.cleaning_process import CleaningProcess, WorkerDiedError
from penstock.node.metrics.registry import Group
from penstock.node.partitions.cleaner import Cleaner
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.replication.committed import Committed
from penstock.testing.simulator.rounds import CleaningThreads

PAD = b"v" * 100


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path, *topics("orders")) as node:
        yield node


def topics(*names: str) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for number, name in enumerate(names):
        records += topic_records(
            name, topic_id=UUID(int=900 + number), cleanup_policy="compact", internal_segment_bytes="1000"
        )
    return records


def cleaner_of(node: Node, **settings: str) -> Cleaner:
    config = BrokerConfig.embedded({key.replace("_", "."): value for key, value in settings.items()})
    context = node_context(config, node.image, node.directories, lambda: node.now_ms, run_rounds=CleaningThreads)
    node.broker.metrics = context.metrics
    return Cleaner(context, node.table)


def write(node: Node, topic: str = "orders", *, count: int = 40, keys: int = 3) -> PartitionLog:
    partition = node.table.get(topic, 0)
    assert partition is not None
    for number in range(count):
        data = encode_batch([Record(0, node.now_ms, b"k%d" % (number % keys), b"%d" % number + PAD)])
        partition.append(memoryview(data), acks=1, now_ms=node.now_ms)
    return partition.log


def values(log: PartitionLog) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        for position, header in iterate_batches(data):
            found |= {one.key or b"": (one.value or b"") for one in iterate_records(data, position, header)}
            offset = header.last_offset + 1
    return found


def leftovers(log: PartitionLog) -> list[str]:
    return [name for name in os.listdir(log.directory) if name.endswith((".cleaned", ".swap"))]


async def test_a_dirty_log_is_compacted_once(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    before, size = values(log), log.size_bytes
    assert await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert values(log) == before
    assert log.size_bytes < size / 3
    assert log.cleaned_to == log.segments.active.base_offset
    assert not await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert leftovers(log) == []


async def test_a_disk_that_hangs_holds_up_no_compaction_on_another(tmp_path: Path) -> None:
    """A thread that writes checkpoints there holds the lock of that directory."""
    places, may_end, holds = [str(tmp_path / name) for name in ("a", "b")], threading.Event(), threading.Event()
    with node_on(tmp_path, *topics("orders"), log_dirs=",".join(places)) as node:
        log, cleaner = write(node), cleaner_of(node)
        (other,) = [one for one in node.directories.roots.online if one.path != log.parent]

        def hang() -> None:
            with other.checkpointing:
                holds.set()
                assert may_end.wait(30)

        hangs = asyncio.get_running_loop().run_in_executor(None, hang)
        assert await asyncio.to_thread(holds.wait, 30)
        try:
            async with asyncio.timeout(20):
                assert await cleaner.clean_dirtiest(CleaningThreads(Disk()))
        finally:
            may_end.set()
        await hangs
        assert (Path(log.parent) / "cleaner-offset-checkpoint").exists()


async def test_where_records_wait_nothing_is_compacted_even_if_the_default_of_all_topics_says_so(node: Node) -> None:
    """With what was delivered that would take the delivery, and the next leader would deliver it again."""
    log, cleaner = write(node), cleaner_of(node)
    log.config = log.config.replace(penstock_delay_enable=True)
    assert not await cleaner.clean_dirtiest(CleaningThreads(Disk()))


async def test_of_topics_that_are_not_compacted_one_partition_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may have very many. What a topic wants today counts."""
    plain = topic_records("plain", topic_id=UUID(int=901), partitions=2)
    with node_on(tmp_path, *topic_records("orders", topic_id=UUID(int=900), partitions=2), *plain) as node:
        looked_at: list[tuple[str, int]] = []
        monkeypatch.setattr(Cleaner, "_look_at", lambda _, one, __: looked_at.append((one.topic, one.index)))
        cleaner, runner = cleaner_of(node), CleaningThreads(Disk())
        assert not await cleaner.clean_dirtiest(runner)
        assert looked_at == []
        node.commit(
            ConfigRecord(
                resource_type=ResourceType.TOPIC, resource_name="orders", name="cleanup.policy", value="compact"
            )
        )
        assert not await cleaner.clean_dirtiest(runner)
        assert sorted(looked_at) == [("orders", 0), ("orders", 1)]


async def test_in_a_process_of_its_own(node: Node) -> None:
    log, cleaner, runner = write(node), cleaner_of(node), CleaningProcess(Disk())
    before, size = values(log), log.size_bytes
    try:
        assert await cleaner.clean_dirtiest(runner)
        assert (values(log), log.size_bytes < size / 3) == (before, True)
        write(node)
        write(node)
        assert await cleaner.clean_dirtiest(runner)
    finally:
        await runner.rest()


async def test_the_mark_outlives_a_restart(tmp_path: Path) -> None:
    with node_on(tmp_path, *topics("orders")) as node:
        log = write(node)
        await cleaner_of(node).clean_dirtiest(CleaningThreads(Disk()))
        cleaned_to = log.cleaned_to
        checkpoints = [path.read_text() for path in tmp_path.rglob("cleaner-offset-checkpoint")]
    with node_on(tmp_path, *topics("orders")) as node:
        again = node.table.get("orders", 0)
        assert again is not None
        assert again.log.cleaned_to == cleaned_to > 0
    assert checkpoints == [f"0\n1\norders 0 {cleaned_to}\n"], (
        "it is written when it is cleaned, not by a clean stop alone"
    )


async def test_the_dirtiest_goes_first(tmp_path: Path) -> None:
    with node_on(tmp_path, *topics("a", "b", "c")) as node:
        cleaner, runner = cleaner_of(node), CleaningThreads(Disk())
        logs = [write(node, topic, keys=40) for topic in "abc"]
        for log in logs:
            log.cleaned_to = log.segments[1].base_offset
        logs[1].cleaned_to = 0
        assert await cleaner.clean_dirtiest(runner)
        assert [log.cleaned_to == log.segments.active.base_offset for log in logs] == [False, True, False]


async def test_what_is_not_stable_stays(tmp_path: Path) -> None:
    with node_on(tmp_path, *topics("orders")) as node:
        log = write(node)
        partition = node.table.get("orders", 0)
        assert partition is not None
        partition.committed = Committed(log.segments[1].base_offset + 1)
        assert await cleaner_of(node).clean_dirtiest(CleaningThreads(Disk()))
        assert log.cleaned_to == log.segments[1].base_offset


async def test_a_log_is_flushed_before_its_older_records_go(node: Node) -> None:
    log = write(node)
    assert log.recovery_point == 0
    await cleaner_of(node).clean_dirtiest(CleaningThreads(Disk()))
    assert log.recovery_point == 40


class Meanwhile:
    """Runs a round, and has something happen in the middle of it."""

    def __init__(self, happen: object) -> None:
        self._happen = happen
        self._runner = CleaningThreads(Disk())

    async def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        async for step in self._runner.run(work, bytes_per_s):
            happen, self._happen = self._happen, None
            if callable(happen) and isinstance(step, Cleaned):
                happen()
            yield step

    async def rest(self) -> None:
        """Nothing to let go of."""


async def test_a_log_that_is_cut_meanwhile_is_given_up(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    assert not await cleaner.clean_dirtiest(Meanwhile(lambda: log.truncate_to(3)))
    assert (log.log_end_offset, log.cleaned_to, leftovers(log)) == (3, 0, [])


async def test_a_log_that_is_deleted_meanwhile_is_given_up(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    happen = Meanwhile(lambda: node.commit(RemoveTopicRecord(topic_id=UUID(int=900))))
    assert not await cleaner.clean_dirtiest(happen)
    assert log.is_deleted
    assert cleaner.uncleanable == {}


async def test_what_is_made_of_segments_that_retention_took_is_dropped(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    second = log.segments[1].base_offset

    def begin_later() -> None:
        log.advance_log_start(second)
        log.retire_below_start(node.now_ms)

    assert await cleaner.clean_dirtiest(Meanwhile(begin_later))
    assert log.segments[0].base_offset == second
    assert set(values(log)) == {b"k0", b"k1", b"k2"}
    assert leftovers(log) == []


async def test_a_log_that_moves_is_left_alone(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    node.directories.futures["orders", 0] = log
    assert not await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    node.directories.futures.clear()


async def test_a_damaged_log_is_named_and_passed_by(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    log, cleaner = write(node), cleaner_of(node)
    path = Path(log.segments[0].path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert not await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert "Partition(orders-0) cannot be compacted and is passed by from now on: the CRC of the batch" in caplog.text
    assert not await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    metrics = told(node.broker.metrics, Group.CLEANER_MANAGER)
    assert metrics["uncleanable-partitions-count"] == 1
    assert metrics["uncleanable-bytes"] == log.size_bytes
    node.commit(RemoveTopicRecord(topic_id=UUID(int=900)))
    await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert cleaner.uncleanable == {}


class Dying:
    """A process that ends in the middle of each round."""

    async def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        if work.segments:
            raise WorkerDiedError(ErrorCode.UNKNOWN_SERVER_ERROR, "it was killed")
        yield Cleaned((), 0)

    async def rest(self) -> None:
        """Nothing to let go of."""


class Idle:
    """Counts how often it may rest."""

    rests = 0

    async def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        raise AssertionError("there is nothing to do")
        yield

    async def rest(self) -> None:
        self.rests += 1


@pytest.mark.parametrize(("idle_s", "rests"), [(0.0, True), (1e9, False)])
async def test_the_process_is_kept_for_a_while(
    node: Node, monkeypatch: pytest.MonkeyPatch, idle_s: float, rests: bool
) -> None:
    monkeypatch.setattr("penstock.node.partitions.cleaner.IDLE_S", idle_s)
    runner, looks = Idle(), asyncio.Semaphore(0)
    config = BrokerConfig.embedded({"log.cleaner.backoff.ms": "1"})
    context = node_context(config, node.image, node.directories, lambda: node.now_ms, run_rounds=lambda _: runner)
    cleaner = Cleaner(context, node.table)
    monkeypatch.setattr(cleaner.metrics, "begin_look", lambda now_ms: looks.release())
    cleaner.start()
    for _ in range(6):
        await looks.acquire()
    assert (runner.rests > 0) is rests
    await cleaner.stop()


async def test_a_process_that_dies_is_counted_and_the_log_has_its_turn_again(node: Node) -> None:
    log, cleaner = write(node), cleaner_of(node)
    assert not await cleaner.clean_dirtiest(Dying())
    assert told(node.broker.metrics, Group.CLEANER)["DeadThreadCount"] == 1
    assert await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert log.cleaned_to > 0


async def test_metrics_have_kafkas_names(node: Node) -> None:
    write(node)
    cleaner = cleaner_of(node)
    for group in (Group.CLEANER, Group.CLEANER_MANAGER):
        assert set(told(node.broker.metrics, group).values()) == {0}, "before the first look"
    await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    node.now_ms += 5
    of_rounds, of_looks = (told(node.broker.metrics, group) for group in (Group.CLEANER, Group.CLEANER_MANAGER))
    assert of_looks["max-dirty-percent"] == 100
    assert of_looks["time-since-last-run-ms"] == 5
    assert 0 < of_rounds["cleaner-recopy-percent"] < 30
    assert {"max-clean-time-secs", "max-buffer-utilization-percent"} <= set(of_rounds)


async def test_a_log_tells_how_dirty_it_is_and_when_it_was_its_turn(node: Node) -> None:
    log, cleaner, partition = write(node), cleaner_of(node), node.partition()
    assert cleaner.state(partition.log, partition.high_watermark) == (100, -1, None)
    await cleaner.clean_dirtiest(CleaningThreads(Disk()))
    assert cleaner.state(partition.log, partition.high_watermark) == (0, node.now_ms, None)
    log.abandon()
    assert cleaner.state(partition.log, partition.high_watermark) == (-1, node.now_ms, None)


async def test_as_many_at_work_as_threads_and_none_if_it_is_disabled(tmp_path: Path) -> None:
    with node_on(tmp_path, *topics("a", "b")) as node:
        logs = [write(node, topic) for topic in "ab"]
        off = cleaner_of(node, log_cleaner_enable="false")
        off.start()
        await off.stop()
        cleaner = cleaner_of(node, log_cleaner_threads="2", log_cleaner_backoff_ms="1")
        cleaner.start()
        while not all(log.cleaned_to for log in logs):
            await asyncio.sleep(0)
        await cleaner.stop()
