"""A coordinator that has moved is looked for again, whatever it was asked; one that is busy is not."""

from collections.abc import Awaitable, Callable

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import FakeCluster

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_delete import OffsetDeleteResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
T0 = TopicPartition("t", 0)


def committed(code: ErrorCode) -> Message:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])


Case = tuple[ApiKey, Callable[[Admin], Awaitable[object]], Callable[[ErrorCode], Message]]
CASES: list[Case] = [
    (
        ApiKey.DESCRIBE_GROUPS,
        lambda admin: admin.groups.describe("g"),
        lambda code: DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", error_code=code)]),
    ),
    (
        ApiKey.DELETE_GROUPS,
        lambda admin: admin.groups.delete("g"),
        lambda code: DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=code)]),
    ),
    (
        ApiKey.OFFSET_FETCH,
        lambda admin: admin.groups.offsets("g"),
        lambda code: OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=code)]),
    ),
    (ApiKey.OFFSET_COMMIT, lambda admin: admin.groups.set_offsets("g", {T0: OffsetAndMetadata(1)}), committed),
    (
        ApiKey.OFFSET_DELETE,
        lambda admin: admin.groups.delete_offsets("g", [T0]),
        lambda code: OffsetDeleteResponse(error_code=code),
    ),
]


@pytest.mark.parametrize(
    ("code", "looks"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
    ],
)
@pytest.mark.parametrize("case", CASES, ids=[case[0].name for case in CASES])
async def test_a_coordinator_that_has_moved_is_looked_for(case: Case, code: ErrorCode, looks: int) -> None:
    key, call, answer = case
    fake = FakeCluster()
    fake.scripts[key] = [lambda _: answer(code), lambda _: answer(ErrorCode.NONE)]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        await call(admin)
    assert len(fake.asked(key)) == 2
    assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == looks
