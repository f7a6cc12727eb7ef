"""What a coordinator says that its groups have consumed: never more than what is committed, or will be."""

from random import Random
from uuid import UUID

from tests.unit.coordinator.group.test_pending import PRODUCER, Groups

from penstock.coordinator.effects import Append, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards import groups as shards
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

FLIGHTS_ID = UUID(int=8)


def positions(shard: GroupShard, topic: str = "flights") -> dict[str, dict[int, int]]:
    return {group_id: found for some in shard.positions(topic, FLIGHTS_ID) for group_id, found in some.items()}


def test_what_is_not_committed_does_not_count() -> None:
    groups = Groups()
    groups.commit(5)
    assert positions(groups.shard) == {"readers": {}}
    groups.write_all()
    assert positions(groups.shard) == {"readers": {0: 5}}
    groups.commit(9)
    assert positions(groups.shard) == {"readers": {0: 5}}


def test_a_step_back_counts_from_its_decision_on() -> None:
    groups = Groups()
    groups.commit(5)
    groups.write_all()
    groups.commit(2)
    groups.commit(7)
    assert positions(groups.shard) == {"readers": {0: 2}}


def test_an_offset_that_is_about_to_be_deleted_counts_no_more() -> None:
    groups = Groups()
    groups.commit(5)
    groups.write_all()
    wanted = OffsetDeleteRequestTopic(name="flights", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    groups.take(groups.shard.delete_offsets("token", OffsetDeleteRequest(group_id="readers", topics=[wanted]), 0))
    assert positions(groups.shard) == {"readers": {}}, "it may fail"
    groups.write_one(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert positions(groups.shard) == {"readers": {0: 5}}


def test_one_in_an_open_transaction_makes_a_reader_without_an_offset() -> None:
    groups = Groups()
    groups.commit(9, producer=PRODUCER)
    assert positions(groups.shard) == {"readers": {}}
    groups.end(is_commit=True)
    groups.write_all()
    assert positions(groups.shard) == {"readers": {0: 9}}


def test_a_step_back_in_an_open_transaction_counts() -> None:
    groups = Groups()
    groups.commit(9)
    groups.write_all()
    groups.commit(3, producer=PRODUCER)
    assert positions(groups.shard) == {"readers": {0: 3}}, "it may be written"
    groups.write_all()
    assert positions(groups.shard) == {"readers": {0: 3}}, "the transaction may end well"
    groups.end(is_commit=False)
    groups.write_all()
    assert positions(groups.shard) == {"readers": {0: 9}}


def test_an_offset_in_an_earlier_topic_of_the_name_does_not_count() -> None:
    groups = Groups()
    for number, topic_id in enumerate((FLIGHTS_ID, UUID(int=9))):
        wanted = OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name="flights", topic_id=topic_id, partitions=[wanted])]
        request = OffsetCommitRequest(group_id="readers", topics=topics)
        groups.take(groups.shard.commit("token", request, 10, 0))
    groups.write_all()
    assert positions(groups.shard) == {"readers": {0: 5}}


def joined(shard: GroupShard, *topics: str) -> None:
    subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)
    request = JoinGroupRequest(
        group_id=f"of {topics[0]}",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    effects = [*shard.join("join", request, Caller("c", "/h", 3), 0), *shard.wake(0)]
    for effect in effects:
        assert not isinstance(effect, Append)
    assert any(isinstance(effect, Reply) for effect in effects)


def test_a_group_that_reads_the_topic_is_named_before_it_commits() -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), Random(1), ClusterImage())
    shard.loaded(0)
    joined(shard, "flights")
    joined(shard, "trains")
    assert positions(shard) == {"of flights": {}}


def test_others_have_their_turn_between_many_groups() -> None:
    groups = Groups()
    for number in range(2 * shards.GROUPS_AT_ONCE + 1):
        topics = [OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition()])]
        groups.take(groups.shard.commit("token", OffsetCommitRequest(group_id=f"g{number}", topics=topics), 8, 0))
    assert [len(some) for some in groups.shard.positions("flights", FLIGHTS_ID)] == [
        shards.GROUPS_AT_ONCE,
        shards.GROUPS_AT_ONCE,
        1,
    ]


def test_others_have_their_turn_between_groups_with_many_offsets() -> None:
    groups, count = Groups(), shards.OFFSETS_AT_ONCE // 2
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(count)]
    topics = [OffsetCommitRequestTopic(name="flights", partitions=rows)]
    for name in "abc":
        groups.take(groups.shard.commit("token", OffsetCommitRequest(group_id=name, topics=topics), 8, 0))
    groups.write_all()
    assert [list(some) for some in groups.shard.positions("flights", FLIGHTS_ID)] == [["a", "b"], ["c"]]
