"""What Kafka 4.4's tests of streams groups ask for that is no scenario of heartbeats (`test_transcripts.py`)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.group.streams.bench import AT_ONCE, CALLER, GROUP, NOW, Bench, tasks, topology
from tests.unit.coordinator.group.streams.test_groups import classic_join
from tests.unit.coordinator.group.streams.test_heartbeat import both, configure, ready

from penstock.coordinator.group.settings import Bounded, GroupSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequestEndpoint,
    TaskOffset,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest

OFFSET = TaskOffset(subtopology_id="1", partition=0, offset=5)
NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


# -- offsets of tasks -------------------------------------------------------------------------------------------------


def told_offsets(bench: Bench) -> dict[str, list[int]]:
    members = bench.shard.describe_streams_group(GROUP).members
    return {one.member_id: [each.offset for each in (*one.task_offsets, *one.task_end_offsets)] for one in members}


@pytest.mark.parametrize(
    "fields",
    [
        {"task_offsets": [OFFSET], **NOTHING, "active_tasks": tasks(s0=[9])},
        {"task_offsets": [OFFSET, OFFSET]},
        {"task_end_offsets": [OFFSET, OFFSET]},
    ],
)
def test_offsets_of_a_request_that_is_refused_are_not_kept(fields: dict[str, Any]) -> None:
    bench = both()
    assert bench.beat("a", bench.streams.state.epoch, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert told_offsets(bench) == {"a": [], "b": []}


def test_offsets_are_kept_written_nowhere_and_told_of_their_member_alone() -> None:
    bench = both()
    epoch, written = bench.streams.state.epoch, len(bench.log)
    bench.beat("a", epoch, task_offsets=[OFFSET], task_end_offsets=[OFFSET.replace(offset=20)])
    bench.beat("a", epoch, task_offsets=[OFFSET.replace(offset=12)])
    assert len(bench.log) == written
    assert told_offsets(bench) == {"a": [12, 20], "b": []}


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "group", "has", "version", "missing"),
    [
        ("zone,cluster", None, (), 1, ["cluster", "zone"]),
        ("zone,cluster", None, (), 0, []),
        ("zone,cluster", None, ("cluster",), 1, ["zone"]),
        ("zone", None, ("zone",), 1, []),
        ("", None, (), 1, []),
        ("zone", "rack", ("zone",), 1, ["rack"]),
    ],
)
def test_which_tags_are_missing(
    broker: str, group: str | None, has: tuple[str, ...], version: int, missing: list[str]
) -> None:
    bench = ready(GroupSettings(streams=NOW.replace(rack_aware_tags=tuple(filter(None, broker.split(","))))))
    if group is not None:
        configure(bench, rack_aware_assignment_tags=group)
    said = [KeyValue(key=key, value="1") for key in has]
    answer = bench.join("a", client_tags=said, caller=CALLER._replace(api_version=version))
    assert [one.status_code for one in answer.status] == ([6] if missing else [])
    if missing:
        assert answer.status[0].status_detail.endswith(", ".join(f"client.tag.{tag}" for tag in missing))


def test_settings_of_a_group_hold_from_its_next_heartbeat_on_within_those_of_the_broker() -> None:
    bench = ready(AT_ONCE)
    answer = bench.join("a")
    assert (answer.heartbeat_interval_ms, answer.task_offset_interval_ms) == (5_000, 60_000)
    configure(bench, session_timeout_ms="50000", heartbeat_interval_ms="10000", num_standby_replicas="2")
    answer = bench.beat("a", 2, rack_id="there")
    assert answer.heartbeat_interval_ms == 10_000
    assert dict(bench.streams.state.group.assignment_configs)["num.standby.replicas"] == "2"
    bench.advance(49_999)
    assert bench.streams.state.members
    configure(bench, session_timeout_ms="70000", heartbeat_interval_ms="1", num_standby_replicas="100")
    configure(bench, task_offset_interval_ms="100")
    answer = bench.beat("a", bench.streams.state.current("a").epoch)
    assert (answer.heartbeat_interval_ms, answer.task_offset_interval_ms) == (5_000, 15_000)
    assert dict(bench.streams.state.group.assignment_configs)["num.standby.replicas"] == "2"
    bench.advance(59_999)
    assert bench.streams.state.members
    bench.advance(1)
    assert not bench.streams.state.members


def test_a_recovery_lag_makes_no_epoch_and_is_told_from_version_1_on() -> None:
    bench = both()
    epoch = bench.streams.state.epoch
    configure(bench, acceptable_recovery_lag="50000")
    answer = bench.beat("a", epoch)
    assert (answer.member_epoch, answer.acceptable_recovery_lag, answer.acceptable_recovery_lag_legacy) == (
        *(epoch, 50_000),
        0,
    )
    assert [name for name, _ in bench.streams.state.group.assignment_configs] == ["num.standby.replicas"]


# -- states, other kinds, and the end ---------------------------------------------------------------------------------


def test_states_follow_from_the_records() -> None:
    bench = Bench(AT_ONCE)
    states = []
    for event in (
        lambda: bench.join("a"),
        bench.make_internal_topics,
        lambda: bench.obey("a"),
        lambda: bench.join("b"),
        lambda: bench.settle("a", "b"),
        lambda: (bench.beat("a", -1), bench.beat("b", -1)),
    ):
        event()
        states.append(bench.streams.committed.state)
    assert states == ["NotReady", "NotReady", "Stable", "Reconciling", "Stable", "Empty"]
    bench.restart()
    assert bench.streams.committed.state == "Empty"


def test_requests_of_other_kinds_do_not_find_it() -> None:
    bench = both()
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["words"]
    )
    bench.take(bench.shard.consumer_heartbeat("consumer", consumer, CALLER, lambda _: True, bench.now_ms))
    shared = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="c", subscribed_topic_names=["words"])
    bench.take(bench.shard.share_heartbeat("share", shared, CALLER, bench.now_ms))
    codes = [bench.replies[token].error_code for token in ("consumer", "share")]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert classic_join(bench).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bench.take(bench.shard.sync("sync", SyncGroupRequest(group_id=GROUP, member_id="a"), bench.now_ms))
    leaves = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="a")])
    bench.take(bench.shard.leave("leave", leaves, 5, bench.now_ms))
    assert bench.replies["sync"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.error_code for one in bench.replies["leave"].members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.shard.describe_consumer_group(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.shard.describe_share_group(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert set(bench.streams.state.members) == {"a", "b"}


@pytest.mark.parametrize("kind", ["consumer", "share", "classic"])
def test_nor_does_it_find_those_of_others(kind: str) -> None:
    bench = ready()
    if kind == "consumer":
        consumer = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="c", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["words"]
        )
        bench.take(bench.shard.consumer_heartbeat("c", consumer, CALLER, lambda _: True, bench.now_ms))
    elif kind == "share":
        shared = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="c", subscribed_topic_names=["words"])
        bench.take(bench.shard.share_heartbeat("c", shared, CALLER, bench.now_ms))
    else:
        classic_join(bench)
    assert bench.join("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.beat("a", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.shard.describe_streams_group(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_deleted_has_no_timer() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(initial_rebalance_delay=Bounded(1_000, 0, 1_000))))
    bench.join("a")
    bench.beat("a", -1)
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    assert bench.replies["delete"] is ErrorCode.NONE
    written = len(bench.log)
    bench.advance(60_000)
    assert len(bench.log) == written


# -- static members ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "epochs", "told"),
    [
        (None, "b", (0, 1), ["b"]),
        (None, None, (0, 0), None),
        ("a", None, (1, 2), []),
        ("a", "b", (1, 2), ["b"]),
        ("a", "a", (1, 1), ["a"]),
    ],
)
def test_an_instance_may_come_with_another_name_and_another_endpoint(
    first: str | None, second: str | None, epochs: tuple[int, int], told: list[str] | None
) -> None:
    bench = ready()

    def join(member_id: str, host: str | None) -> Any:
        endpoint = None if host is None else StreamsGroupHeartbeatRequestEndpoint(host=host, port=80)
        return bench.join(member_id, instance_id="i1", process_id="p", user_endpoint=endpoint)

    assert join("m1", first).endpoint_information_epoch == epochs[0]
    bench.beat("m1", -2, instance_id="i1")
    answer = join("m2", second)
    assert answer.endpoint_information_epoch == epochs[1]
    found = answer.partitions_by_user_endpoint
    assert (None if found is None else [one.user_endpoint.host for one in found]) == told
    assert bench.join("m2", instance_id="i2", process_id="p", topology=topology()).error_code == ErrorCode.NONE
    assert dict(bench.streams.state.static_ids) == {"i2": "m2"}


def test_the_assignor_is_told_that_the_group_asks_for() -> None:
    bench = ready(GroupSettings(streams=NOW.replace(assignors=("sticky", "custom"))))
    bench.join("a")
    configure(bench, assignor_name="custom")
    assert bench.shard.describe_streams_group(GROUP).assignor_name == "custom"
