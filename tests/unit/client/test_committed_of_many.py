"""Positions of many groups: few requests, each to who coordinates them, and one group's refusal is its own."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster

from penstock.client import cluster as clusters
from penstock.client import committed_offsets
from penstock.client.admin import Admin
from penstock.client.admin.share_groups import SharePosition
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.protocol.requests.api import AnyApiKey, ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
AT = {TopicPartition("t", 0): OffsetAndMetadata(7)}
GROUPS = ["a", "b", "c", "d", "e"]


class Coordinating(FakeCluster):
    """Coordinates every group. `refuses` says which it refuses, and with what; the first time alone."""

    def __init__(self, refuses: Mapping[str, ErrorCode] | None = None) -> None:
        super().__init__()
        self.refuses = dict(refuses or {})
        self.nobody_coordinates: set[str] = set()

    def __call__(self, header: RequestHeader, request: Message) -> Message | bytes | None:
        if isinstance(request, FindCoordinatorRequest) and header.api_version >= 4:
            return FindCoordinatorResponse(coordinators=[self.coordinator(key) for key in request.coordinator_keys])
        if isinstance(request, DescribeShareGroupOffsetsRequest):
            return DescribeShareGroupOffsetsResponse(groups=[self.share_group(one.group_id) for one in request.groups])
        if not isinstance(request, OffsetFetchRequest):
            return super().__call__(header, request)
        if header.api_version < 8:
            if refusal := self.refuses.pop(request.group_id, None):
                return OffsetFetchResponse(error_code=refusal)
            single = OffsetFetchResponsePartition(partition_index=0, committed_offset=7)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[single])])
        return OffsetFetchResponse(groups=[self.group(one.group_id) for one in request.groups])

    def coordinator(self, key: str) -> Coordinator:
        if key in self.nobody_coordinates:
            return Coordinator(key=key, node_id=NODE_ID, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key=key, node_id=NODE_ID)

    def group(self, name: str) -> OffsetFetchResponseGroup:
        if refusal := self.refuses.pop(name, None):
            return OffsetFetchResponseGroup(group_id=name, error_code=refusal)
        row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
        return OffsetFetchResponseGroup(group_id=name, topics=[OffsetFetchResponseTopics(name="t", partitions=[row])])

    def share_group(self, name: str) -> DescribeShareGroupOffsetsResponseGroup:
        if refusal := self.refuses.pop(name, None):
            return DescribeShareGroupOffsetsResponseGroup(group_id=name, error_code=refusal)
        row = DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=7, lag=3)
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=[row])
        return DescribeShareGroupOffsetsResponseGroup(group_id=name, topics=[topic])

    def groups_asked(self) -> list[list[str]]:
        found: list[Any] = [*self.asked(ApiKey.OFFSET_FETCH), *self.asked(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)]
        return [[group.group_id for group in one.groups] or [one.group_id] for one in found]


async def offsets_of(fake: Coordinating, versions: dict[AnyApiKey, tuple[int, int]] | None = None) -> list[str]:
    """The groups of which positions came."""
    async with fake_broker(fake, versions) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        found, failures = await admin.groups.offsets_of(GROUPS)
    assert all(one == AT for one in found.values())
    assert sorted([*found, *failures]) == GROUPS
    return sorted(found)


async def test_a_request_asks_for_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_offsets, "GROUPS_AT_ONCE", 3)
    monkeypatch.setattr(clusters, "KEYS_AT_ONCE", 4)
    fake = Coordinating()
    assert await offsets_of(fake) == GROUPS
    assert fake.groups_asked() == [["a", "b", "c"], ["d", "e"]]
    assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == 2


async def test_who_has_moved_is_looked_for_again_and_what_is_refused_is_left_out() -> None:
    fake = Coordinating({"b": ErrorCode.NOT_COORDINATOR, "d": ErrorCode.GROUP_AUTHORIZATION_FAILED})
    assert await offsets_of(fake) == ["a", "b", "c", "e"]
    assert fake.groups_asked() == [GROUPS, ["b"]]
    keys = [
        one.coordinator_keys for one in fake.asked(ApiKey.FIND_COORDINATOR) if isinstance(one, FindCoordinatorRequest)
    ]
    assert keys == [GROUPS, ["b"]]


async def test_why_nothing_is_told_of_a_group_is_said() -> None:
    fake = Coordinating({"d": ErrorCode.GROUP_AUTHORIZATION_FAILED})
    fake.nobody_coordinates = {"a"}
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        _, failures = await admin.groups.offsets_of(GROUPS)
    codes = {group: error.code for group, error in failures.items() if isinstance(error, KafkaError)}
    assert codes == {"a": ErrorCode.COORDINATOR_NOT_AVAILABLE, "d": ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def test_share_groups_are_asked_for_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_offsets, "GROUPS_AT_ONCE", 3)
    fake = Coordinating({"b": ErrorCode.NOT_COORDINATOR, "d": ErrorCode.GROUP_ID_NOT_FOUND})
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        found, failures = await admin.share_groups.offsets_of(GROUPS)
    position = {TopicPartition("t", 0): SharePosition(7, 0, 3)}
    assert (found, list(failures)) == (dict.fromkeys(["a", "c", "e", "b"], position), ["d"])
    assert fake.groups_asked() == [["a", "b", "c"], ["d", "e"], ["b"]]


async def test_a_group_without_a_coordinator_keeps_nobody_waiting() -> None:
    fake = Coordinating()
    fake.nobody_coordinates = {"a", "e"}
    assert await offsets_of(fake) == ["b", "c", "d"]


@pytest.mark.parametrize("old", [(ApiKey.OFFSET_FETCH, (1, 7)), (ApiKey.FIND_COORDINATOR, (0, 3))])
async def test_brokers_of_long_ago_are_asked_for_one_after_the_other(old: tuple[AnyApiKey, tuple[int, int]]) -> None:
    fake = Coordinating()
    assert await offsets_of(fake, dict([old])) == GROUPS
    asked = {ApiKey.OFFSET_FETCH: len(fake.groups_asked()), ApiKey.FIND_COORDINATOR: 0}
    asked[ApiKey.FIND_COORDINATOR] = len(fake.asked(ApiKey.FIND_COORDINATOR))
    assert asked[ApiKey(old[0])] == len(GROUPS)
    assert sum(asked.values()) == len(GROUPS) + 1


async def test_of_brokers_of_long_ago_too_one_groups_refusal_is_its_own() -> None:
    fake = Coordinating({"b": ErrorCode.GROUP_AUTHORIZATION_FAILED})
    assert await offsets_of(fake, {ApiKey.OFFSET_FETCH: (1, 7)}) == ["a", "c", "d", "e"]


async def test_a_coordinator_that_breaks_off_is_tried_once_more() -> None:
    fake = Coordinating()
    broken = [b""]

    def breaks(header: RequestHeader, request: Message) -> Message | bytes | None:
        if header.api_key == ApiKey.OFFSET_FETCH and broken:
            return broken.pop()
        return fake(header, request)

    async with fake_broker(breaks) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        found, failures = await admin.groups.offsets_of(GROUPS)
    assert (sorted(found), failures) == (GROUPS, {})
