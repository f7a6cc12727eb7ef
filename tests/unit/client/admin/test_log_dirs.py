"""What waits for compaction is asked for only where somebody wants to know."""

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import FakeCluster

from penstock.client.admin import Admin
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.requests.api import ApiKey, OwnApiKey
from penstock.protocol.requests.own_apis import CompactedLog, DescribeCompactionResponse


@pytest.mark.parametrize("with_compaction", [True, False])
async def test_compaction_is_asked_for_where_it_is_wanted(with_compaction: bool) -> None:
    fake = FakeCluster()
    topic = DescribeLogDirsTopic(name="t", partitions=[DescribeLogDirsPartition(partition_index=0, partition_size=9)])
    answer = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=[topic])])
    fake.scripts[ApiKey.DESCRIBE_LOG_DIRS] = [lambda _: answer]
    logs = [CompactedLog(topic="t", partition=0, dirty_percent=7)]
    fake.scripts[OwnApiKey.DESCRIBE_COMPACTION] = [lambda _: DescribeCompactionResponse(logs=logs)]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address]) as admin:
        (found,) = await admin.describe_log_dirs(with_compaction=with_compaction)
    (size,) = found.partitions.values()
    assert (size.size_bytes, size.dirty_percent) == (9, 7 if with_compaction else None)
    assert bool(fake.scripts[OwnApiKey.DESCRIBE_COMPACTION]) is not with_compaction


async def test_brokers_of_others_know_of_no_compaction() -> None:
    fake = FakeCluster()
    topic = DescribeLogDirsTopic(name="t", partitions=[DescribeLogDirsPartition(partition_index=0, partition_size=9)])
    answer = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=[topic])])
    fake.scripts[ApiKey.DESCRIBE_LOG_DIRS] = [lambda _: answer]
    unserved = {OwnApiKey.DESCRIBE_COMPACTION: (-1, -1)}
    async with fake_broker(fake, unserved) as fake.broker, Admin([fake.broker.address]) as admin:  # type: ignore[arg-type]
        (found,) = await admin.describe_log_dirs(with_compaction=True)
    (size,) = found.partitions.values()
    assert (size.size_bytes, size.dirty_percent) == (9, None)
