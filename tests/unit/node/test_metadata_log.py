import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.memory_log import MemoryLog, MemorySlice

from penstock.log.disk import Disk
from penstock.metadata.records import MetadataRecord, TopicRecord
from penstock.node.metadata_log import MetadataLog
from penstock.protocol.batch import read_header
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

NODE = 1


class Committed:
    """What the log said was committed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.offsets: list[int] = []

    def __call__(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        self.names += [record.name for record in records if isinstance(record, TopicRecord)]
        self.offsets.append(last_offset)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(int=len(name)))


@pytest.fixture
def memory(tmp_path: Path) -> MemoryLog:
    return MemoryLog(str(tmp_path))


def opened(memory: MemoryLog) -> tuple[MetadataLog, Committed]:
    log = MetadataLog(memory, Disk(), NODE, lambda: 1_000)
    committed = Committed()
    log.on_committed = committed
    return log, committed


async def test_a_leader_begins_with_a_control_record_and_appends_follow(memory: MemoryLog) -> None:
    log, committed = opened(memory)
    log.replay()
    assert await log.lead() == 1
    await log.append([topic("a"), topic("b")])
    assert committed.names == ["a", "b"]
    assert committed.offsets == [2]
    headers = [read_header(batch, 0) for batch in memory.batches]
    assert [(h.base_offset, h.is_control, h.partition_leader_epoch) for h in headers] == [(0, True, 1), (1, False, 1)]


async def test_nothing_is_committed_before_it_is_on_the_disk_and_waiters_share_a_sync(memory: MemoryLog) -> None:
    log, committed = opened(memory)
    await log.lead()
    memory.started.clear()
    memory.open.clear()
    first = log.append([topic("a")])
    await asyncio.to_thread(memory.started.wait, 30)
    later = [log.append([topic(name)]) for name in ("b", "c", "d")]
    behind = log.append([])
    assert committed.names == []
    assert not first.done()
    syncs = memory.syncs
    memory.open.set()
    await first
    assert committed.names == ["a"]
    await asyncio.gather(*later, behind)
    assert committed.names == ["a", "b", "c", "d"]
    assert memory.syncs == syncs + 2


async def test_an_append_of_nothing_needs_no_sync_of_its_own(memory: MemoryLog) -> None:
    log, _ = opened(memory)
    await log.lead()
    syncs = memory.syncs
    assert log.append([]).done()
    assert memory.syncs == syncs


async def test_replay_gives_everything_again_but_the_control_records(memory: MemoryLog) -> None:
    log, _ = opened(memory)
    await log.lead()
    await log.append([topic("a")])
    await log.append([topic("b"), topic("c")])
    again, committed = opened(MemoryLog(memory.directory, memory.batches))
    again.replay()
    assert committed.names == ["a", "b", "c"]
    assert committed.offsets == [1, 3]
    assert await again.lead() == 2


async def test_the_epoch_grows_even_if_the_log_is_lost(memory: MemoryLog) -> None:
    log, _ = opened(memory)
    await log.lead()
    fresh, _ = opened(MemoryLog(memory.directory))
    assert await fresh.lead() == 2


async def test_a_failed_write_leaves_the_log_as_it_was(memory: MemoryLog) -> None:
    log, committed = opened(memory)
    await log.lead()
    memory.write_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    with pytest.raises(KafkaError, match="full"):
        log.append([topic("a")])
    memory.write_error = None
    await log.append([topic("b")])
    assert committed.names == ["b"]


async def test_after_a_failed_sync_the_log_takes_nothing_more(memory: MemoryLog) -> None:
    log, committed = opened(memory)
    await log.lead()
    memory.sync_error = OSError("gone")
    appends = [log.append([topic("a")]), log.append([topic("b")])]
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(result, KafkaError) for result in results] == [True, True]
    memory.sync_error = None
    with pytest.raises(KafkaError, match="gone"):
        log.append([topic("c")])
    assert committed.names == []


async def test_closing_waits_for_what_was_appended(memory: MemoryLog) -> None:
    log, committed = opened(memory)
    await log.lead()
    await log.close()
    log.append([topic("a")])
    await log.close()
    assert committed.names == ["a"]


def test_a_log_that_ends_too_early_is_refused(memory: MemoryLog) -> None:
    class Short(MemoryLog):
        @property
        def log_end_offset(self) -> int:
            return 5

        def read(self, offset: int, max_bytes: int) -> MemorySlice:
            return MemorySlice(b"")

    log, _ = opened(Short(memory.directory))
    with pytest.raises(DecodeError, match="ends at offset 0"):
        log.replay()


async def test_records_that_cannot_be_applied_end_the_log(memory: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    log, _ = opened(memory)
    await log.lead()

    def broken(records: Sequence[MetadataRecord], last_offset: int) -> None:
        raise ValueError("no such topic")

    log.on_committed = broken
    waiting = [log.append([topic("a")]), log.append([topic("b")])]
    done, _ = await asyncio.wait(waiting, timeout=30)
    assert len(done) == 2, "they must not wait for ever"
    for append in waiting:
        with pytest.raises(KafkaError, match=r"could not be applied.*no such topic"):
            await append
    with pytest.raises(KafkaError, match="could not be applied"):
        log.append([topic("c")])
    await log.close()
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "restart the node" in line.message
    assert line.exc_info is not None


async def test_a_failed_sync_says_what_to_do(memory: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    log, _ = opened(memory)
    await log.lead()
    memory.sync_error = OSError(28, "No space left on device")
    with pytest.raises(KafkaError):
        await log.append([topic("a")])
    with pytest.raises(KafkaError):
        log.append([topic("b")])
    (line,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert "No space left" in line
    assert f"make sure that the disk under {memory.directory} has room" in line
    assert "restart the node" in line
