"""How a share group comes along: what leaders tell of it, and count."""

from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS, Node
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, RELEASE, Member
from tests.unit.node.sharing.stand_in import sharing_node

from penstock.node.sharing.progress import HALF_MS, Rate
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.share_progress import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
    SharePartitionAt,
    ShareTopicAt,
)

LATER_MS = 5_000


def described(node: Node, start_offset: int = 0) -> DescribedSharePartition:
    partitions = [SharePartitionAt(partition=0, start_offset=start_offset), SharePartitionAt(partition=7)]
    topics = [
        ShareTopicAt(topic_name="orders", partitions=partitions),
        ShareTopicAt(topic_name="unknown", partitions=partitions),
    ]
    answer = node.ask(DescribeSharePartitionsRequest(group_id="g", topics=topics), 0)
    assert isinstance(answer, DescribeSharePartitionsResponse)
    assert (answer.error_code, answer.now_ms) == (ErrorCode.NONE, node.now_ms)
    known, unknown = answer.topics
    assert (known.error_code, unknown.error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    (partition,) = known.partitions
    return partition


def shown(node: Node, name: str) -> float:
    (metric,) = [it for it in node.broker.metrics if it.name == name]
    ((_, value),) = dict(metric.samples()).items()
    return float(value)


async def test_what_is_still_to_be_done_and_for_how_long_it_has_waited(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        node.produce(b"c")
        node.now_ms += LATER_MS
        assert described(node).oldest_ms == NOW_MS, "nobody fetches, and records wait all the same"
        assert described(node, start_offset=3).oldest_ms == described(node, start_offset=-1).oldest_ms == -1
        ann = Member(node)
        assert await ann.acquire() == [(0, 2, 1)]
        told = described(node)
        assert (told.is_read, told.backlog, told.in_flight, told.held) == (True, 3, 3, 0)
        assert (told.oldest_ms, told.deliveries_per_second > 0, told.redeliveries_per_second) == (NOW_MS, True, 0)
        assert await ann.acknowledge((0, 0, [ACCEPT]), (1, 2, [RELEASE]), delays_ms=[40_000]) == ErrorCode.NONE
        told = described(node)
        assert (told.backlog, told.in_flight, told.held) == (2, 0, 2)
        assert shown(node, "BacklogCount") == 2
        assert shown(node, "OldestWaitingMs") == LATER_MS
        assert (shown(node, "RecordDeliveriesPerSec"), shown(node, "RecordRedeliveriesPerSec")) == (3, 0)


async def test_what_comes_again_is_counted_and_what_is_done_waits_no_more(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.acquire()
        assert await ann.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE])) == ErrorCode.NONE
        assert await ann.acquire() == [(1, 1, 2)]
        assert (shown(node, "RecordDeliveriesPerSec"), shown(node, "RecordRedeliveriesPerSec")) == (3, 1)
        assert await ann.acknowledge((1, 1, [ACCEPT])) == ErrorCode.NONE
        told = described(node)
        assert (told.backlog, told.oldest_ms, told.in_flight) == (0, -1, 0)
        assert (shown(node, "BacklogCount"), shown(node, "OldestWaitingMs")) == (0, 0)


@pytest.mark.parametrize(
    ("now_ms", "rate"),
    [
        (500, 60.0),
        (10_000, 6.0),
        (HALF_MS + 10_000, 1.5),
        (2 * HALF_MS - 1, 1.0),
        (2 * HALF_MS, 0.0),
        (10 * HALF_MS, 0.0),
    ],
)
def test_a_rate_is_that_of_the_last_minute(now_ms: int, rate: float) -> None:
    counted = Rate(0)
    counted.add(60, 0)
    assert round(counted.per_second(now_ms), 3) == rate
    assert counted.total == 60
