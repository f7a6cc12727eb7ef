"""What is asked of all leaders at once: what some of them refuse keeps nobody from what others tell."""

from collections.abc import Callable, Mapping

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import FakeCluster

from penstock.client.admin import Admin
from penstock.client.at_leaders import _Search, ask_leaders, ask_leaders_that_answer
from penstock.client.cluster import ClusterClient
from penstock.client.errors import ConnectionFailedError
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndTimestamp, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
U0 = TopicPartition("u", 0)
FOUND = OffsetAndTimestamp(7, -1, -1)
PASSING, FINAL = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def offsets(errors: Mapping[int, ErrorCode]) -> Callable[[Message], Message]:
    """Offset 7 for each partition that is asked about, but for these."""

    def answer(request: Message) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=row.partition_index, offset=7, error_code=errors.get(row.partition_index, 0)
            )
            for row in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])

    return answer


def asked_about(fake: FakeCluster) -> list[list[int]]:
    return [
        [row.partition_index for row in request.topics[0].partitions]
        for request in fake.asked(ApiKey.LIST_OFFSETS)
        if isinstance(request, ListOffsetsRequest)
    ]


async def test_only_what_is_missing_is_asked_again() -> None:
    fake = FakeCluster(partitions=2)
    fake.scripts[ApiKey.LIST_OFFSETS] = [offsets({1: PASSING}), offsets({})]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        assert await admin.offsets({T0: -1, T1: -1}) == {T0: FOUND, T1: FOUND}
    assert asked_about(fake) == [[0, 1], [1]]


async def test_a_refusal_for_good_is_raised_or_told_beside_what_was_found() -> None:
    fake = FakeCluster(partitions=3)
    fake.leaderless.add(2)
    fake.scripts[ApiKey.LIST_OFFSETS] = [offsets({1: FINAL}), offsets({1: FINAL})]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        with pytest.raises(KafkaError) as raised:
            await admin.offsets({T0: -1, T1: -1})
        assert raised.value.code is FINAL
        found, failures = await admin.offsets_that_can_be_had({T0: -1, T1: -1, T2: -1, U0: -1})
    assert found == {T0: FOUND}
    codes = {partition: error.code for partition, error in failures.items() if isinstance(error, KafkaError)}
    assert codes == {
        T1: FINAL,
        T2: ErrorCode.LEADER_NOT_AVAILABLE,
        U0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_refusal_that_passed_is_no_failure() -> None:
    fake = FakeCluster(partitions=2)
    fake.scripts[ApiKey.LIST_OFFSETS] = [offsets({0: PASSING, 1: PASSING}), offsets({1: FINAL})]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        found, failures = await admin.offsets_that_can_be_had({T0: -1, T1: -1})
    assert found == {T0: FOUND}
    assert [str(partition) for partition in failures] == ["t-1"]
    assert asked_about(fake) == [[0, 1], [0, 1]]


async def test_who_leads_is_not_asked_again_while_it_is_known() -> None:
    fake = FakeCluster(partitions=2)
    fake.scripts[ApiKey.LIST_OFFSETS] = [offsets({}), offsets({}), offsets({1: PASSING}), offsets({})]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        looks = []
        for _ in range(3):
            found, failures = await admin.offsets_that_can_be_had({T0: -1, T1: -1})
            assert (found, failures) == ({T0: FOUND, T1: FOUND}, {})
            looks.append(len(fake.asked(ApiKey.METADATA)))
    assert looks[0] == looks[1] < looks[2], "a leader that was refused is looked for"


Told = tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]
NOTHING: dict[TopicPartition, int] = {}


@pytest.mark.parametrize(
    ("failure", "looks"),
    [
        (ConnectionFailedError("gone"), 2),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), 2),
        (KafkaError(ErrorCode.FENCED_LEADER_EPOCH), 2),
        (KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH), 2),
        (KafkaError(ErrorCode.LEADER_NOT_AVAILABLE), 2),
        (KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 1),
    ],
)
async def test_a_leader_that_fails_is_asked_again_for_all_its_partitions(failure: Exception, looks: int) -> None:
    failures, asked = [failure], list[list[TopicPartition]]()

    async def ask(node_id: int, wanted: Mapping[TopicPartition, int]) -> Told:
        asked.append(list(wanted))
        if failures:
            raise failures.pop()
        return {partition: value + 1 for partition, value in wanted.items()}, {}

    fake = FakeCluster(partitions=2)
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as cluster:
        await cluster.topic("t")
        known = len(fake.asked(ApiKey.METADATA))
        search = _Search(cluster, {T0: 5, T1: 7}, ask)
        assert await search.go_on() == {T0: failure, T1: failure}
        assert len(fake.asked(ApiKey.METADATA)) - known == looks - 1
        assert await search.go_on() == {}
        assert (search.found, search.missing) == ({T0: 6, T1: 8}, {})
    assert asked == [[T0, T1], [T0, T1]]


async def test_one_partition_that_has_moved_is_reason_enough_to_look_who_leads() -> None:
    refusals = {T0: KafkaError(FINAL), T1: KafkaError(PASSING)}

    async def ask(node_id: int, wanted: Mapping[TopicPartition, int]) -> Told:
        return {}, dict(refusals)

    fake = FakeCluster(partitions=2)
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as cluster:
        await cluster.topic("t")
        known = len(fake.asked(ApiKey.METADATA))
        assert await _Search(cluster, {T0: 0, T1: 0}, ask).go_on() == refusals
        assert len(fake.asked(ApiKey.METADATA)) == known + 1


async def test_leaders_that_fail_to_the_end_are_told_of_for_each_partition() -> None:
    gone, refusal = ConnectionFailedError("gone"), KafkaError(PASSING)

    async def ask(node_id: int, wanted: Mapping[TopicPartition, int]) -> Told:
        if T0 in wanted:
            return {T0: 1}, dict.fromkeys(set(wanted) - {T0}, refusal)
        raise gone

    fake = FakeCluster(partitions=3)
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as cluster:
        wanted = dict.fromkeys((T0, T1, T2), 0)
        assert await ask_leaders_that_answer(cluster, wanted, ask, timeout_ms=200) == ({T0: 1}, {T1: gone, T2: gone})
        assert await ask_leaders_that_answer(cluster, NOTHING, ask) == ({}, {})
        assert await ask_leaders(cluster, NOTHING, ask) == {}


async def test_a_fault_of_ones_own_is_no_refusal() -> None:
    async def ask(node_id: int, wanted: Mapping[TopicPartition, int]) -> Told:
        raise ZeroDivisionError

    fake = FakeCluster()
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as cluster:
        with pytest.raises(ZeroDivisionError):
            await ask_leaders(cluster, {T0: 0}, ask)


async def test_what_will_not_pass_is_raised_rather_than_what_may() -> None:
    final, passing = KafkaError(FINAL), KafkaError(PASSING)
    asked = list[int]()

    async def ask(node_id: int, wanted: Mapping[TopicPartition, int]) -> Told:
        asked.append(len(wanted))
        return {}, {T0: passing, T1: final}

    fake = FakeCluster(partitions=2)
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as cluster:
        with pytest.raises(KafkaError) as raised:
            await ask_leaders(cluster, {T0: 0, T1: 0}, ask)
    assert (raised.value, asked) == (final, [2])


async def test_a_deletion_tells_where_the_log_begins_then() -> None:
    row = DeleteRecordsPartitionResult(partition_index=0, low_watermark=5)
    fake = FakeCluster()
    fake.scripts[ApiKey.DELETE_RECORDS] = [
        lambda _: DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=[row])])
    ]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        assert await admin.topics.delete_records({T0: 5}) == {T0: 5}
