"""Streams groups as one kind of many: what fails is taken back, what is loaded goes on; offsets, listing, deletion."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.coordinator.group.streams.bench import AT_ONCE, CALLER, GROUP, Bench

from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.records import (
    ASSIGNMENT,
    CURRENT,
    MEMBER,
    TARGET,
    TOPOLOGY,
    CurrentMemberAssignmentValue,
)
from penstock.coordinator.group.streams.records import GROUP as EPOCH
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.coordinator.group.streams.values import (
    Copartition,
    Current,
    GroupEpoch,
    Held,
    InternalTopic,
    Member,
    Subtopology,
    Topology,
)
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from penstock.protocol.requests.own_apis import What

COUNTS = InternalTopic("counts", 0, 3, (("cleanup.policy", "compact"),))
RECORDS = [
    StreamsRecord("g", GroupEpoch(7, -5, 2, (("num.standby.replicas", "1"),), 2, 1), EPOCH),
    StreamsRecord("g", GroupEpoch(7, -5), EPOCH),
    StreamsRecord("g", Member("i", "r", "c", "/h", 9, 2, "p", ("host", 80), (("zone", "z"),)), MEMBER, "m"),
    StreamsRecord("g", Member(), MEMBER, "m"),
    StreamsRecord("g", AssignmentEpoch(6, 12), ASSIGNMENT),
    StreamsRecord("g", Roles({"0": (1, 2)}, {"1": (0,)}, {"2": (3,)}), TARGET, "m"),
    StreamsRecord(
        "g",
        Current(5, 4, 2, Held({"0": {1: 3, 2: 4}}, {"1": (0,)}, {"2": (1,)}), Held({"0": {3: 1}}, {"1": (5,)}, {})),
        CURRENT,
        "m",
    ),
    StreamsRecord(
        "g",
        Topology(3, (Subtopology("0", ("a",), (), (COUNTS,), ("x",), (COUNTS,), (Copartition((0,), (), (0,)),)),)),
        TOPOLOGY,
    ),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.key))
def test_records_come_back_as_they_were(record: StreamsRecord) -> None:
    key, value = record.encode()
    assert StreamsRecord.decode(record.key, key, value) == record
    gone = record.replace(value=None)
    assert StreamsRecord.decode(record.key, *gone.encode()) == gone
    assert value is not None
    for end in range(2, len(value)):
        with pytest.raises(DecodeError):
            StreamsRecord.decode(record.key, key, value[:end])


@pytest.mark.parametrize(("member_epoch", "since"), [(5, 5), (-2, 0)])
def test_a_current_record_of_before_epochs_has_that_of_its_member(member_epoch: int, since: int) -> None:
    key, value = next(one for one in RECORDS if one.key == CURRENT).encode()
    assert value is not None
    written, _ = decode(CurrentMemberAssignmentValue, 0, value[2:])
    written.member_epoch = member_epoch
    for tasks in written.active_tasks:
        tasks.assignment_epochs = None
    read = StreamsRecord.decode(CURRENT, key, value[:2] + encode(written, 0))
    assert read.value.assigned.active == {"0": {1: since, 2: since}}


# -- what is written --------------------------------------------------------------------------------------------------


def ready() -> Bench:
    bench = Bench()
    bench.make_internal_topics()
    return bench


def both() -> Bench:
    bench = ready()
    bench.join("a")
    bench.join("b")
    bench.settle("a", "b")
    return bench


def test_nobody_is_answered_before_the_commit_and_what_fails_is_taken_back() -> None:
    bench = ready()
    bench.holds = True
    assert bench.join("a") is None
    assert bench.join("b") is None
    bench.fail()
    refused = [bench.replies[name, 0].response.error_code for name in ("a", "b")]
    assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert GROUP not in bench.shard._table.groups
    bench.holds = False
    assert bench.join("a").error_code == ErrorCode.NONE


def test_a_group_that_had_offsets_alone_has_them_again_when_its_first_write_fails() -> None:
    bench = ready()
    assert commit(bench, "", -1, "words", 0) is ErrorCode.NONE
    before = [*bench.shard.list_groups()]
    assert [group.group_id for group in before] == [GROUP]
    bench.holds = True
    bench.join("a")
    bench.fail()
    assert [*bench.shard.list_groups()] == before


def test_a_removal_that_fails_leaves_the_member_with_a_session() -> None:
    bench = both()
    bench.holds = True
    bench.beat("b", -1)
    bench.fail()
    bench.holds = False
    assert sorted(bench.streams.sessions) == ["a", "b"]
    assert bench.beat("b", bench.streams.state.current("b").epoch).error_code == ErrorCode.NONE


def test_another_coordinator_goes_on_where_the_log_ends() -> None:
    bench = both()
    before = bench.runs["a"][0]
    epoch = bench.streams.state.epoch
    bench.restart()
    assert bench.streams.committed.state == "Stable"
    answer = bench.beat("a", epoch)
    assert (answer.error_code, answer.member_epoch, bench.streams.state.epoch) == (0, epoch, epoch)
    assert bench.runs["a"][0] == before


def test_a_group_is_loaded_from_its_records_in_any_order() -> None:
    bench = both()
    last: dict[bytes, bytes | None] = {}
    for append in bench.log:
        last.update(append.records)
    records, random = list(last.items()), Random(5)
    for _ in range(20):
        random.shuffle(records)
        shard = GroupShard(AT_ONCE, Random(1), bench.image)
        for key, value in records:
            shard.read(key, value)
        shard.loaded(bench.now_ms)
        group: Any = shard._table.groups[GROUP]
        assert group.committed.state == "Stable"
        for member_id, current in bench.streams.state.currents.items():
            for subtopology, since in current.assigned.active.items():
                for partition in since:
                    assert group.state.active_process(subtopology, partition) == f"process of {member_id}"


# -- offsets ----------------------------------------------------------------------------------------------------------


def commit(bench: Bench, member_id: str, epoch: int, topic: str, *indexes: int, version: int = 9) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=one, committed_offset=1) for one in indexes],
            )
        ],
    )
    token = object()
    bench.take(bench.shard.commit(token, request, version, bench.now_ms))
    return ErrorCode(bench.replies[token].topics[0].partitions[0].error_code)


def test_a_member_commits_in_its_epoch_and_in_an_older_one_for_what_it_has_had_since_then() -> None:
    bench = both()
    epoch, current = bench.streams.state.epoch, bench.streams.state.current("a")
    subtopology, since = next(iter(current.assigned.active.items()))
    topic = {"0": "words", "1": "by-word"}[subtopology]
    partition, began = next(iter(since.items()))
    assert commit(bench, "a", epoch, "words", 0, 1) is ErrorCode.NONE
    assert commit(bench, "a", epoch + 1, topic, partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert began < epoch
    assert commit(bench, "a", began, topic, partition) is ErrorCode.NONE
    assert commit(bench, "a", began - 1, topic, partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(bench, "a", began, topic, 0, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(bench, "a", epoch, topic, partition, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(bench, "x", epoch, topic, partition) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, "", -1, topic, partition) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_are_fetched_by_who_says_its_epoch_or_nothing() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    check = bench.shard.check_fetch
    assert check(GROUP, None, -1) is ErrorCode.NONE
    assert check(GROUP, "a", epoch) is ErrorCode.NONE
    assert check(GROUP, "a", epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert check(GROUP, "x", epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_sources_are_read_while_there_are_members() -> None:
    bench = both()
    assert bench.streams.is_reading("words")
    assert bench.streams.is_reading("by-word")
    assert not bench.streams.is_reading("counts")
    bench.beat("a", -1)
    bench.beat("b", -1)
    assert not bench.streams.is_reading("words")
    assert commit(bench, "", -1, "words", 0) is ErrorCode.NONE


# -- what happened ----------------------------------------------------------------------------------------------------


def test_the_history_tells_who_came_and_went_and_which_tasks_moved() -> None:
    bench = both()
    bench.beat("b", -1)
    bench.settle("a")
    bench.restart()
    first, second, third = bench.shard.describe_history(GROUP, bench.now_ms).epochs
    assert [one.kind for one in (first, second, third)] == ["streams"] * 3
    assert [(one.what, one.member_id) for one in (*first.changes, *second.changes, *third.changes)] == [
        (What.JOINED, "a"),
        (What.JOINED, "b"),
        (What.LEFT, "b"),
    ]
    assert [(one.moved, one.ended_ms >= 0) for one in (first, second, third)] == [(4, True), (2, True), (2, True)]
    assert {(one.giver, one.taker) for one in second.moves} == {("a", "b")}
    assert {(one.giver, one.taker) for one in third.moves} == {("b", "a")}
    assert {one.topic for one in first.moves} == {"0", "1"}


def test_a_member_that_is_waited_for_is_named_with_what_it_is_to_give_up() -> None:
    bench = ready()
    bench.join("a")
    bench.join("b")
    bench.obey("a")
    (awaited,) = bench.shard.describe_history(GROUP, bench.now_ms).awaited
    assert (awaited.member_id, awaited.what) == ("a", "to give up partitions")
    assert sum(len(one.partitions) for one in awaited.partitions) == 2


# -- what the topology looks like -------------------------------------------------------------------------------------


def push(bench: Bench, *, member_id: str = "a", epoch: int = 1, name: str = "p0", node_type: int = 2) -> Any:
    nodes = [TopologyDescriptionNode(name=name, node_type=node_type)]
    described = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)])
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUP, member_id=member_id, topology_epoch=epoch, topology_description=described
    )
    return bench.ask(bench.shard.update_topology_description, request)


def test_a_member_sends_what_its_topology_looks_like_and_nobody_is_asked_again() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    told = bench.shard.describe_streams_group(GROUP, with_description=True)
    assert (told.topology_description, told.topology_description_status) == (None, 1)
    assert bench.beat("a", epoch).topology_description_required
    assert not bench.beat("a", epoch, caller=CALLER._replace(api_version=0)).topology_description_required
    assert push(bench).error_code == 0
    assert not bench.beat("b", epoch).topology_description_required
    bench.restart()
    told = bench.shard.describe_streams_group(GROUP, with_description=True)
    assert told.topology_description_status == 3
    assert told.topology_description is not None
    assert told.topology_description.subtopologies[0].nodes[0].name == "p0"
    without = bench.shard.describe_streams_group(GROUP)
    assert (without.topology_description, without.topology_description_status) == (None, 0)


def test_who_may_not_send_a_description() -> None:
    bench = both()
    assert push(bench, member_id="x").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert push(bench, epoch=2).error_code == ErrorCode.INVALID_REQUEST
    assert push(bench, node_type=9).error_code == ErrorCode.INVALID_REQUEST
    assert bench.beat("a", bench.streams.state.epoch).topology_description_required
    assert push(Bench()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_description_that_can_never_be_kept_is_not_asked_for_again() -> None:
    bench = both()
    refusal = push(bench, name="p" * 600_000)
    assert refusal.error_code == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert not bench.beat("a", bench.streams.state.epoch).topology_description_required
    assert bench.shard.describe_streams_group(GROUP, with_description=True).topology_description_status == 1


# -- one kind of many -------------------------------------------------------------------------------------------------


def test_it_is_listed_described_and_deleted() -> None:
    bench = both()
    listed = [*bench.shard.list_groups()]
    assert [(one.group_id, one.protocol_type, one.group_type, one.group_state) for one in listed] == [
        (GROUP, "streams", "streams", "Stable")
    ]
    told = bench.shard.describe_streams_group(GROUP)
    assert (told.group_state, told.group_epoch, told.assignment_epoch, told.assignor_name) == ("Stable", 3, 3, "sticky")
    assert told.topology is not None
    assert told.topology.subtopologies is not None
    sizes = {
        topic.name: topic.partitions for sub in told.topology.subtopologies for topic in sub.state_changelog_topics
    }
    assert sizes == {"counts": 2}
    assert [member.member_id for member in told.members] == ["a", "b"]
    assert bench.shard.describe_streams_group("x").error_code == ErrorCode.GROUP_ID_NOT_FOUND

    def delete() -> Any:
        token = object()
        bench.take(bench.shard.delete_group(token, GROUP, bench.now_ms))
        return bench.replies[token]

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    bench.beat("a", -1)
    bench.beat("b", -1)
    assert delete() is ErrorCode.NONE
    assert [*bench.shard.list_groups()] == []
    bench.restart()
    assert bench.shard._table.groups == {}


def classic_join(bench: Bench, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        protocol_type="consumer",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    token = object()
    bench.take(bench.shard.join(token, request, CALLER._replace(api_version=3), bench.now_ms))
    bench.advance(4_000)
    return bench.replies.get(token)


def test_an_empty_group_goes_to_another_protocol_and_back_with_its_offsets() -> None:
    bench = both()
    commit(bench, "a", bench.streams.state.epoch, "words", 0)
    assert classic_join(bench).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bench.beat("a", -1)
    bench.beat("b", -1)
    assert classic_join(bench).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # the group makes way for another kind
    assert classic_join(bench).error_code == ErrorCode.NONE
    assert bench.join("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.advance(20_000)
    assert bench.join("a").error_code == ErrorCode.NONE
    assert bench.streams.kind == "streams"
    assert bench.shard.offsets(GROUP)["words"][0].offset == 1
    bench.restart()
    assert bench.streams.kind == "streams"


def test_an_empty_group_of_consumers_becomes_one_of_streams() -> None:
    bench = ready()
    joining = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["words"]
    )
    bench.take(bench.shard.consumer_heartbeat("t", joining, CALLER, lambda _: True, bench.now_ms))
    assert bench.join("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    leaving = joining.replace(member_epoch=-1)
    bench.take(bench.shard.consumer_heartbeat("t", leaving, CALLER, lambda _: True, bench.now_ms))
    assert bench.join("a").error_code == ErrorCode.NONE
    bench.restart()
    assert bench.streams.committed.state == "Stable"
