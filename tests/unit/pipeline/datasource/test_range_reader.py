"""The reader of offset ranges: what it does with the leader that a refusal names."""

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.stand_in import stand_in
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster, Script, served_in_a_thread

from penstock.client import blocking
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import RangeFetcher, read_ranges
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

OTHER = NODE_ID + 1
TOPIC_ID = UUID(int=7)
BATCH = encode_batch([Record(0, 1_700_000_000_000, None, b"value")])


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    with served_in_a_thread(cluster):
        yield cluster


def answer(row: PartitionData, *endpoints: NodeEndpoint) -> FetchResponse:
    topic = FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[row])
    return FetchResponse(responses=[topic], node_endpoints=list(endpoints))


def refused(fake: FakeCluster, epoch: int) -> Script:
    """Another node leads, in this epoch. It is the same fake broker, by another id."""

    def refuse(_: Message) -> FetchResponse:
        assert fake.broker is not None
        host, port = fake.broker.address
        leader = LeaderIdAndEpoch(leader_id=OTHER, leader_epoch=epoch)
        row = PartitionData(
            partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader, records=None
        )
        return answer(row, NodeEndpoint(node_id=OTHER, host=host, port=port))

    return refuse


def served(_: Message) -> FetchResponse:
    return answer(PartitionData(partition_index=0, high_watermark=1, records=bytes(BATCH)))


@pytest.mark.parametrize(("epochs", "looks_and_pauses"), [((5, 6), (1, 0)), ((-1,), (2, 1))])
def test_a_leader_that_a_refusal_names_is_asked_at_once(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, epochs: tuple[int, ...], looks_and_pauses: tuple[int, int]
) -> None:
    assert fake.broker is not None
    pauses: list[float] = []
    monkeypatch.setattr(blocking, "time", stand_in(time, sleep=pauses.append))
    fake.scripts[ApiKey.FETCH] = [*(refused(fake, epoch) for epoch in epochs), served]
    host, port = fake.broker.address
    options = read_options({"bootstrap.servers": f"{host}:{port}", "subscribe": TOPIC})
    source = source_options(options, streaming=False)
    batches = list(read_ranges(source, [OffsetRange(TOPIC, 0, 0, 1, TOPIC_ID)]))
    assert sum(batch.num_rows for batch in batches) == 1
    assert (len(fake.asked(ApiKey.METADATA)), len(pauses)) == looks_and_pauses


def test_readers_of_a_directory_fetch_once(fake: FakeCluster, tmp_path: Path) -> None:
    assert fake.broker is not None
    fake.scripts[ApiKey.FETCH] = [served]
    host, port = fake.broker.address
    options = {"bootstrap.servers": f"{host}:{port}", "subscribe": TOPIC, "sharedFetches": str(tmp_path)}
    source = source_options(read_options(options), streaming=False)
    for _ in range(2):
        batches = list(read_ranges(source, [OffsetRange(TOPIC, 0, 0, 1, TOPIC_ID)]))
        assert sum(batch.num_rows for batch in batches) == 1
    assert len(fake.asked(ApiKey.FETCH)) == 1


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_the_next_request_is_under_way_unless_another_reader_may_have_asked(
    fake: FakeCluster, tmp_path: Path, is_shared: bool, has_id: bool
) -> None:
    """Without the topic's id nothing is shared: the name may stand for another topic by now."""
    assert fake.broker is not None
    second = encode_batch([Record(0, 1_700_000_000_000, None, b"next")], base_offset=1)
    row = PartitionData(partition_index=0, high_watermark=2, records=bytes(second))
    fake.scripts[ApiKey.FETCH] = [served, lambda _: answer(row)]
    host, port = fake.broker.address
    options = {"bootstrap.servers": f"{host}:{port}", "subscribe": TOPIC}
    source = source_options(
        read_options(options | ({"sharedFetches": str(tmp_path)} if is_shared else {})), streaming=False
    )
    cluster = blocking.BlockingCluster(source.settings)
    fetcher = RangeFetcher(cluster, source, OffsetRange(TOPIC, 0, 0, 2, TOPIC_ID if has_id else None))
    fetches = iter(fetcher)
    next(fetches)
    assert (fetcher._connection is None) is (is_shared and has_id)
    next(fetches)
    assert fetcher._connection is None
    assert next(fetches, None) is None
    assert (len(list(tmp_path.glob("*-*/*-*"))) == 2) is (is_shared and has_id)
    cluster.close()
