"""What each request of groups does to a group of each kind in each state: who takes whose place, and who is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.unit.coordinator.group.share.bench import Bench

from penstock.client.consumer_protocol import encode_subscription
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.settings import (
    Bounded,
    ConsumerSettings,
    GroupSettings,
    ShareSettings,
    StreamsSettings,
)
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest

G: Final = "g"
CALLER: Final = Caller("test", "/10.0.0.1", 9)
AT_ONCE: Final = Bounded(0, 0, 0)
SETTINGS: Final = GroupSettings(
    initial_rebalance_delay_ms=0,
    consumer=ConsumerSettings(assignment_interval=AT_ONCE),
    share=ShareSettings(assignment_interval=AT_ONCE),
    streams=StreamsSettings(assignment_interval=AT_ONCE, initial_rebalance_delay=AT_ONCE),
)
TOPOLOGY: Final = Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=["words"])])


EXPECTED: Final = Path(__file__).parent / "kinds_and_requests.txt"
"""For each request, each outcome with the states that lead to it."""
READ_ONLY: Final = {
    "asks_for_commit",
    "consumer_goes_on",
    "heartbeat_ages_ms",
    "is_pending",
    "member_count",
    "offsets",
    "shared",
}
"""They look at what is there, whatever it is."""


class Groups:
    def __init__(self) -> None:
        self.bench = Bench(SETTINGS, words=1)
        self.fails = False
        """Whether nothing can be written any more."""

    @property
    def shard(self) -> GroupShard:
        return self.bench.shard

    def ask(self, event: Callable[..., Any], *arguments: Any) -> Any:
        """Its answer once all is committed; None if it waits."""
        token = object()
        self.bench.holds = self.bench.holds or self.fails
        self.bench.take(event(token, *arguments, self.bench.now_ms))
        if self.fails and self.bench.under_way:
            self.bench.fail()
        self.bench.holds = False
        self.bench.commit()
        return self.bench.replies.get(token)

    # -- members ------------------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", version: int = 9) -> Any:
        said = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(("words",), []))
        request = JoinGroupRequest(
            group_id=G,
            member_id=member_id,
            protocol_type="consumer",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocols=[said],
        )
        return self.ask(self.shard.join, request, CALLER._replace(api_version=version))

    def sync(self, member_id: str, generation: int = 1) -> Any:
        return self.ask(self.shard.sync, SyncGroupRequest(group_id=G, member_id=member_id, generation_id=generation))

    def leave(self, member_id: str) -> Any:
        return self.ask(
            self.shard.leave, LeaveGroupRequest(group_id=G, members=[MemberIdentity(member_id=member_id)]), 5
        )

    def consumer(self, member_id: str, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=G, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request = request.replace(rebalance_timeout_ms=1_000, topic_partitions=[], subscribed_topic_names=["words"])
        return self.ask(self.shard.consumer_heartbeat, request, CALLER._replace(api_version=1), lambda _: True)

    def streams(self, member_id: str, epoch: int) -> Any:
        request = StreamsGroupHeartbeatRequest(group_id=G, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request = request.replace(
                rebalance_timeout_ms=1_000,
                topology=TOPOLOGY,
                process_id="p",
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
            )
        return self.ask(self.shard.streams_heartbeat, request, CALLER).response

    def share(self, member_id: str, epoch: int) -> Any:
        request = ShareGroupHeartbeatRequest(group_id=G, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request = request.replace(subscribed_topic_names=["words"])
        return self.ask(self.shard.share_heartbeat, request, CALLER)

    def commit(self, epoch: int = -1, member_id: str = "") -> Any:
        topic = OffsetCommitRequestTopic(
            name="words", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )
        request = OffsetCommitRequest(
            group_id=G, member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        return self.ask(self.shard.commit, request, 9)

    def commit_pending(self) -> Any:
        topic = OffsetCommitRequestTopic(
            name="words", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )
        return self.ask(self.shard.commit_pending, OffsetCommitRequest(group_id=G, topics=[topic]), 1, 0)

    # -- what is looked at --------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        group = self.shard._table.groups.get(G)
        return "nothing" if group is None else "dead" if group.is_dead else group.kind

    def delete(self) -> None:
        """Under way."""
        self.bench.holds = True
        token = object()
        self.bench.take(self.shard.delete_group(token, G, self.bench.now_ms))
        assert token not in self.bench.replies


# -- states -----------------------------------------------------------------------------------------------------------


def classic(groups: Groups, state: GroupState) -> str:
    """The id of its member."""
    member_id = promised(groups)
    groups.join(member_id)
    groups.bench.advance(1)
    if state is not GroupState.COMPLETING_REBALANCE:
        groups.sync(member_id)
    if state is GroupState.PREPARING_REBALANCE:
        groups.join(promised(groups))
    if state in (GroupState.EMPTY, GroupState.DEAD):
        groups.leave(member_id)
    if state is GroupState.DEAD:
        groups.delete()
    (found,) = groups.shard.classic_groups()
    assert found.state is state, found.state
    return member_id


def modern(kind: str, state: str) -> Callable[[Groups], str]:
    def make(groups: Groups) -> str:
        join = getattr(groups, kind)
        join("m", 0)
        if state != "Members":
            join("m", -1)
        if state == "Dead":
            groups.delete()
        return "m"

    return make


def nothing(groups: Groups) -> str:
    return "m"


def offsets(groups: Groups) -> str:
    groups.commit()
    return "m"


def promised(groups: Groups) -> str:
    """Somebody has been given an id, and has not joined."""
    member_id: str = groups.join(version=4).member_id
    return member_id


def mixed(groups: Groups) -> str:
    """A member of the classic protocol beside one of the consumer protocol."""
    member_id = classic(groups, GroupState.STABLE)
    groups.consumer("c", 0)
    return member_id


STATES: Final[dict[str, Callable[[Groups], str]]] = {
    "nothing": nothing,
    "offsets": offsets,
    "promised": promised,
    **{f"classic {state.value}": lambda groups, state=state: classic(groups, state) for state in GroupState},  # type: ignore[misc]
    "consumer mixed": mixed,
    **{
        f"{kind} {state}": modern(kind, state)
        for kind in ("consumer", "streams", "share")
        for state in ("Empty", "Members", "Dead")
    },
}

# -- requests ---------------------------------------------------------------------------------------------------------

REQUESTS: Final[dict[str, Callable[[Groups, str], Any]]] = {
    "join": lambda groups, _: groups.join(version=3),
    "join again": lambda groups, member_id: groups.join(member_id),
    "sync": lambda groups, member_id: groups.sync(member_id),
    "heartbeat": lambda groups, member_id: groups.shard.heartbeat(
        HeartbeatRequest(group_id=G, member_id=member_id, generation_id=1), groups.bench.now_ms
    ),
    "leave": lambda groups, member_id: groups.leave(member_id),
    "consumer 0": lambda groups, _: groups.consumer("n", 0),
    "consumer 1": lambda groups, member_id: groups.consumer(member_id, 1),
    "consumer -1": lambda groups, member_id: groups.consumer(member_id, -1),
    "streams 0": lambda groups, _: groups.streams("n", 0),
    "streams 1": lambda groups, member_id: groups.streams(member_id, 1),
    "streams -1": lambda groups, member_id: groups.streams(member_id, -1),
    "share 0": lambda groups, _: groups.share("n", 0),
    "share 1": lambda groups, member_id: groups.share(member_id, 1),
    "share -1": lambda groups, member_id: groups.share(member_id, -1),
    "commit": lambda groups, _: groups.commit(),
    "commit 1": lambda groups, member_id: groups.commit(1, member_id),
    "pending": lambda groups, _: groups.commit_pending(),
    "fetch": lambda groups, member_id: groups.shard.check_fetch(G, member_id, 1),
    "offset delete": lambda groups, _: groups.ask(groups.shard.delete_offsets, OffsetDeleteRequest(group_id=G)),
    "delete": lambda groups, _: groups.ask(groups.shard.delete_group, G),
    "alter share": lambda groups, _: groups.ask(
        groups.shard.alter_share_offsets, AlterShareGroupOffsetsRequest(group_id=G)
    ),
    "delete share": lambda groups, _: groups.ask(
        groups.shard.delete_share_offsets, DeleteShareGroupOffsetsRequest(group_id=G)
    ),
    "topology": lambda groups, member_id: groups.ask(
        groups.shard.update_topology_description,
        StreamsGroupTopologyDescriptionUpdateRequest(group_id=G, member_id=member_id, topology_epoch=1),
    ),
    "describe": lambda groups, _: groups.shard.describe_group(G, 6),
    "describe consumer": lambda groups, _: groups.shard.describe_consumer_group(G),
    "describe share": lambda groups, _: groups.shard.describe_share_group(G),
    "describe streams": lambda groups, _: groups.shard.describe_streams_group(G),
    "history": lambda groups, _: groups.shard.describe_history(G, groups.bench.now_ms),
}


def error_of(answer: Any) -> str:
    if answer is None:
        return "waits"
    if isinstance(answer, int):
        return ErrorCode(answer).name
    codes = [answer.error_code] if hasattr(answer, "error_code") else []
    codes += [one.error_code for one in getattr(answer, "members", ()) if hasattr(one, "error_code")]
    codes += [one.error_code for topic in getattr(answer, "topics", ()) for one in getattr(topic, "partitions", ())]
    return next((ErrorCode(code).name for code in codes if code), "NONE")


def outcome(state: str, request: str) -> str:
    """The error, and what the group is then, if it is something else."""
    groups = Groups()
    member_id = STATES[state](groups)
    before = "nothing" if state.endswith("Dead") else groups.kind
    error = error_of(REQUESTS[request](groups, member_id))
    groups.bench.holds = False
    groups.bench.commit()
    return error if groups.kind == before else f"{error} -> {groups.kind}"


def table(request: str) -> list[str]:
    found: dict[str, list[str]] = {}
    for state in STATES:
        found.setdefault(outcome(state, request), []).append(state)
    return [
        line
        for what, states in found.items()
        for line in (f"  {what}", *(f"    {', '.join(states[at : at + 5])}" for at in range(0, len(states), 5)))
    ]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_it_is_as_in_the_table(request_name: str) -> None:
    parts = EXPECTED.read_text().split("\n\n")
    expected = {part.splitlines()[0]: part.splitlines()[1:] for part in parts}
    assert table(request_name) == expected[request_name]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_what_cannot_be_written_changes_no_kind(request_name: str) -> None:
    """But for a classic group that nothing was written of yet: it may come, or go with all that it has promised."""
    for state, make in STATES.items():
        groups = Groups()
        member_id = make(groups)
        groups.bench.holds = False
        groups.bench.commit()
        before = groups.kind
        groups.fails = True
        REQUESTS[request_name](groups, member_id)
        is_unwritten = before == "nothing" or state in ("promised", "classic CompletingRebalance")
        assert groups.kind in {before, *(("nothing", "classic") if is_unwritten else ())}, state


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_next_coordinator_finds_a_group_of_that_kind(request_name: str) -> None:
    for state, make in STATES.items():
        groups = Groups()
        REQUESTS[request_name](groups, make(groups))
        groups.bench.commit()
        kind = groups.kind
        groups.bench.restart()
        assert groups.kind in (kind, kind.replace("classic", "nothing")), state


def test_all_kinds_states_and_requests_are_in_it() -> None:
    kinds = {one.kind for one in (ClassicGroup, ConsumerGroup, StreamsGroup, ShareGroup)}
    assert {one.kind for one in _subclasses(Group) if hasattr(one, "kind")} == kinds
    assert kinds <= {state.partition(" ")[0] for state in STATES}
    source = inspect.getsource(inspect.getmodule(test_all_kinds_states_and_requests_are_in_it) or outcome)
    methods = inspect.getmembers(GroupShard, inspect.isfunction)
    of_a_group = [name for name, it in methods if {"request", "group_id"} & set(inspect.signature(it).parameters)]
    assert [name for name in of_a_group if f"shard.{name}" not in source and name not in READ_ONLY] == []


def _subclasses(cls: type) -> list[Any]:
    found: list[Any] = cls.__subclasses__()
    return [*found, *(below for one in found for below in _subclasses(one))]
