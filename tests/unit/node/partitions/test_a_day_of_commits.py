"""A day of commits in virtual time: `__consumer_offsets` stays as large as what is alive and its active segment."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.unit.node.contexts import node_context
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.coordinator.group.records import CommittedOffset, OffsetRecord, decode_record
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.log.validation import AppendOrigin
from penstock.node.partitions.cleaner import Cleaner
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.testing.simulator.rounds import CleaningThreads

GROUPS: Final = 200
COMMIT_EVERY_MS: Final = 30 * 60_000
COMMITS: Final = 24 * 60 * 60_000 // COMMIT_EVERY_MS
SEGMENT_BYTES: Final = 32 * 1024


def commit(node: Node, offset: int) -> int:
    """Each group commits once, in a batch of its own; how many bytes that is."""
    written = 0
    for group in range(GROUPS):
        value = CommittedOffset(offset, 0, "", node.now_ms)
        key, stored = OffsetRecord(f"group-{group}", "orders", 0, value).encode()
        data = encode_batch([Record(0, node.now_ms, key, stored)])
        partition = node.partition(CONSUMER_OFFSETS)
        partition.append(memoryview(data), acks=1, now_ms=node.now_ms, origin=AppendOrigin.COORDINATOR)
        written += len(data)
    return written


def committed(log: PartitionLog) -> dict[str, int]:
    found: dict[str, int] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        for position, header in iterate_batches(data):
            offset = header.last_offset + 1
            for one in iterate_records(data, position, header):
                record = decode_record(one.key or b"", one.value)
                assert isinstance(record, OffsetRecord)
                assert record.value is not None
                found[record.group_id] = record.value.offset
    return found


async def test_a_day_of_commits_leaves_what_is_alive(tmp_path: Path) -> None:
    topic = topic_records(CONSUMER_OFFSETS, cleanup_policy="compact", internal_segment_bytes=str(SEGMENT_BYTES))
    with node_on(tmp_path, *topic) as node:
        runner = CleaningThreads(Disk())
        context = node_context(
            node.broker.config, node.image, node.directories, lambda: node.now_ms, run_rounds=lambda _: runner
        )
        cleaner = Cleaner(context, node.table)
        log, largest = node.partition(CONSUMER_OFFSETS).log, 0
        for offset in range(COMMITS):
            live_bytes = commit(node, offset)
            node.now_ms += COMMIT_EVERY_MS
            while await cleaner.clean_dirtiest(runner):
                pass
            largest = max(largest, log.size_bytes)
        # Half of what may be compacted is dirty at most, and the active segment comes on top.
        assert largest < 2 * live_bytes + 2 * SEGMENT_BYTES
        assert COMMITS * live_bytes > 15 * largest
        assert committed(log) == {f"group-{group}": COMMITS - 1 for group in range(GROUPS)}
