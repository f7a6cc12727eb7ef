"""A leader whose flush finds no room, or hangs, gives way to replicas in sync, which keep what it does not."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.node.held_threads import HeldThreads
from tests.unit.node.on_disk import NODE_ID, Node, batch
from tests.unit.node.partitions.test_flushes import turns
from tests.unit.node.partitions.test_hand_over import OTHER, Giving, replicated_node

from penstock.leadership.transfer import Answer, State
from penstock.log.segments import Segments
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.environment import tasks
from penstock.node.partitions import flushes
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.upkeep import UpkeepIntervals
from penstock.protocol.errors import KafkaError


class GivingUp(Giving):
    def state(self) -> State:
        return self.hand_over.machine.state


class Stuck:
    """A leader with one follower; its disk does nothing before the test wants it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.partition = node.partition("copied")
        self.threads = HeldThreads()
        self._directory = node.directories.roots[self.partition.log.parent]
        self._its_own = self._directory.threads
        self._directory.threads = self.threads  # type: ignore[assignment]
        self.unwritable: list[IsrPartition] = []
        node.replicas.in_sync.unwritable.listen(self.unwritable.append)
        node.upkeep._intervals = UpkeepIntervals(flush_timeout_ms=0)

    def append(self, *values: bytes) -> None:
        for value in values:
            self.partition.append(memoryview(bytearray(batch(value))), acks=-1, now_ms=self.node.now_ms)

    async def told(self) -> None:
        self.unwritable.clear()
        for _ in range(1000):
            await asyncio.sleep(0)
            if self.unwritable:
                return
        raise AssertionError("nobody hears of it")

    async def flush(self) -> None:
        while self.threads.work:
            self.threads.do()
            await turns()

    async def stop(self) -> None:
        await self.flush()
        self._directory.threads = self._its_own
        await self.node.upkeep.stop()


@pytest.fixture
async def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stuck]:
    monkeypatch.setattr(flushes, "AGAIN_S", 0)
    with replicated_node(tmp_path, log_flush_interval_messages="1") as node:
        one = Stuck(node)
        yield one
        await one.stop()


async def test_a_flush_that_hangs_is_told_of_until_it_has_ended(stuck: Stuck) -> None:
    stuck.append(b"a")
    await stuck.told()
    await stuck.told()
    assert stuck.unwritable[0] is stuck.partition
    assert stuck.partition.kept.is_stuck
    await stuck.flush()
    assert not stuck.partition.kept.is_stuck
    stuck.unwritable.clear()
    await turns()
    assert not stuck.unwritable


async def test_one_that_waits_for_those_that_hang_hangs_as_well(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushes, "AT_ONCE", 0)
    stuck.append(b"a")
    await stuck.told()
    assert not stuck.threads.work
    monkeypatch.setattr(flushes, "AT_ONCE", 1)
    assert stuck.node.upkeep._flushes is not None
    stuck.node.upkeep._flushes._work(stuck.partition.log.parent)


async def test_one_that_has_time_is_not_told_of(stuck: Stuck) -> None:
    stuck.node.upkeep._intervals = UpkeepIntervals(flush_timeout_ms=1_000_000)
    stuck.append(b"a")
    await turns()
    await stuck.flush()
    assert not stuck.unwritable


async def test_one_that_finds_no_room_is_told_of(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck.node.upkeep._intervals = UpkeepIntervals(flush_timeout_ms=1_000_000)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    stuck.append(b"a")
    await turns()
    with monkeypatch.context() as full:
        full.setattr(Segments, "flush", fail)
        stuck.threads.do()
        await turns()
    assert stuck.unwritable == [stuck.partition]
    assert stuck.partition.kept.is_stuck


async def test_who_is_stuck_hands_over_when_the_others_have_everything(stuck: Stuck) -> None:
    stuck.append(b"a", b"b")
    stuck.partition.got_stuck()
    giving = GivingUp(stuck.node)
    giving.follow(1)
    assert giving.state() is State.CATCHING_UP
    giving.follow(2)
    assert giving.state() is State.ASKED
    assert stuck.partition.high_watermark == 0, "it is in sync, and does not keep that"
    await giving.answer(Answer.MADE)
    giving.lead(OTHER)
    assert giving.state() is State.FORWARDING
    await giving.hand_over.stop()


async def test_who_is_stuck_and_alone_in_sync_hands_over_nothing(stuck: Stuck) -> None:
    """An eligible leader lacks what is not committed, and here that is acknowledged without."""
    stuck.append(b"a", b"b")
    stuck.partition.got_stuck()
    giving = GivingUp(stuck.node)
    giving.follow(1)
    stuck.node.commit(PartitionChangeRecord(partition_id=0, topic_id=stuck.partition.topic_id, isr=[NODE_ID]))
    await turns()
    assert giving.state() is State.CATCHING_UP
    await giving.hand_over.stop()


async def test_who_is_not_stuck_hands_over_when_it_keeps_everything_itself(stuck: Stuck) -> None:
    stuck.append(b"a")
    stuck.partition.on_fetched(OTHER, 1, 9, stuck.node.now_ms)
    giving = GivingUp(stuck.node)
    assert giving.state() is State.CATCHING_UP
    await turns()
    await stuck.flush()
    assert giving.state() is State.ASKED
    await giving.hand_over.stop()


async def test_who_waits_for_the_others_hears_that_it_leads_no_longer(stuck: Stuck) -> None:
    stuck.append(b"a")
    stuck.partition.got_stuck()
    giving = GivingUp(stuck.node)
    giving.lead(OTHER)
    assert giving.state() is State.OVER
    assert stuck.partition.leader is None


async def test_a_stop_does_not_wait_for_a_flush_that_hangs(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck.append(b"a")
    await turns()
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "ENDS_S", 0)
        with pytest.raises(KafkaError, match="a disk may hang"):
            await stuck.node.upkeep.stop()
