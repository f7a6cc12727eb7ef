"""DescribeCompaction: what a node says of its compacted logs."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.contexts import node_context
from tests.unit.node.on_disk import NOW_MS, Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.node.api.broker import describe_compaction
from penstock.node.partitions.cleaner import Cleaner
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.own_apis import CompactedLog, DescribeCompactionRequest, DescribeCompactionResponse
from penstock.testing.simulator.rounds import CleaningThreads

TABLE = topic_records(
    "table", topic_id=UUID(int=8), partitions=2, cleanup_policy="compact", internal_segment_bytes="1000"
)


def write(node: Node, count: int = 30) -> None:
    for number in range(count):
        data = encode_batch([Record(0, NOW_MS, b"k%d" % (number % 3), b"v" * 100)])
        node.partition("table").append(memoryview(data), acks=1, now_ms=NOW_MS)


def with_cleaner(node: Node) -> Cleaner:
    cleaner = Cleaner(
        node_context(node.broker.config, node.image, node.directories, lambda: node.now_ms, run_rounds=CleaningThreads),
        node.table,
    )
    node.broker.cleaner = cleaner
    return cleaner


async def logs(node: Node) -> list[CompactedLog]:
    request = DescribeCompactionRequest()
    parts = node.dispatch(request, 0)
    answer = node.decode(request, 0, parts) if isinstance(parts, list) else await node.wait(request, 0, parts)
    assert isinstance(answer, DescribeCompactionResponse)
    assert answer.error_code == 0
    return sorted(answer.logs, key=lambda log: log.partition)


async def test_all_compacted_logs_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_compaction, "LOGS_A_STEP", 2)  # gives way in between
    with node_on(tmp_path, *topic_records("orders"), *TABLE) as node:
        cleaner = with_cleaner(node)
        write(node)
        dirty, unread = await logs(node)
        assert (dirty.topic, dirty.partition, dirty.dirty_percent, dirty.cleaned_ms) == ("table", 0, 100, -1)
        assert (unread.topic, unread.partition, unread.dirty_percent, unread.cleaned_ms) == ("table", 1, -1, -1)
        node.now_ms += 7
        await cleaner.clean_dirtiest(CleaningThreads(Disk()))
        clean, _ = await logs(node)
        assert (clean.dirty_percent, clean.cleaned_ms, clean.problem) == (0, NOW_MS + 7, None)


async def test_why_a_log_is_passed_by(tmp_path: Path) -> None:
    with node_on(tmp_path, *TABLE) as node:
        cleaner = with_cleaner(node)
        write(node)
        path = Path(node.partition("table").log.segments[0].path)
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        await cleaner.clean_dirtiest(CleaningThreads(Disk()))
        damaged, other = await logs(node)
        assert damaged.problem is not None
        assert "the CRC of the batch at offset" in damaged.problem
        assert other.problem is None


async def test_nothing_where_nothing_is_compacted(tmp_path: Path) -> None:
    with node_on(tmp_path, *TABLE) as node:
        assert await logs(node) == []
