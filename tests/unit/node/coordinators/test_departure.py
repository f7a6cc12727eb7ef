"""Groups go to another node with their members, their generation and what waits: nobody joins anew."""

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.coordinators.test_groups import commit_request, committed, join_request, stable
from tests.unit.node.group_node import OFFSETS_ID, GroupNode, context, with_topics

from penstock.client.errors import ConnectionFailedError
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.api.broker.forward_to_coordinator import forward_to_coordinator
from penstock.node.coordinators import departure as module
from penstock.node.serving.handler import load_handlers
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.requests.api import ApiKey, OwnApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.own_apis import ForwardToCoordinatorResponse

INDEX = coordinator_partition("orders", 2)
HANDLERS = load_handlers()


class Link:
    """A connection to a node, without a network in between."""

    def __init__(self, move: "Move") -> None:
        self.move = move
        self.in_flight = 0
        self.closed = False

    async def request(self, message: Any, answer: type[Any]) -> Any:
        return await self.submit(message, answer)

    def submit(self, message: Any, answer: type[Any]) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._answer(message))

    async def _answer(self, message: Any) -> ForwardToCoordinatorResponse:
        if self.move.taker is None:
            raise ConnectionFailedError("gone")
        self.in_flight += 1
        asked, _ = decode(type(message), 0, encode(message, 0))
        outer = context(OwnApiKey.FORWARD_TO_COORDINATOR, 0)
        response = await forward_to_coordinator(self.move.taker.broker, outer, asked)
        self.in_flight -= 1
        found: ForwardToCoordinatorResponse = decode(type(response), 0, encode(response, 0))[0]
        return found

    def abort(self, why: str) -> None:
        self.closed = True


class Move:
    """What `HandOver` does with the groups of one partition, step by step."""

    def __init__(self, giver: GroupNode) -> None:
        self.giver = giver
        self.taker: GroupNode | None = None
        self.links: list[Link] = []
        departure = giver.groups.departure_from(giver.table.held[CONSUMER_OFFSETS, INDEX], self._connect)
        assert departure is not None
        self.departure = departure
        self.departure.hold()

    async def _connect(self) -> Any:
        self.links.append(Link(self))
        return self.links[-1]

    async def make(self) -> GroupNode:
        """The other node leads, with all that was written here."""
        self.departure.seal()
        for held in self.giver.table.held.values():
            held.log.flush()
        directory = self.giver.directory.with_name(f"{self.giver.directory.name}-there")
        shutil.copytree(self.giver.directory, directory)
        self.taker = with_topics(GroupNode(directory))
        self.taker.broker.handlers = HANDLERS
        sending = asyncio.create_task(self.departure.forward(0))
        await asyncio.sleep(0)
        self.giver.table.held[CONSUMER_OFFSETS, INDEX].obey(1, PartitionImage(2, 1, 1, (1, 2), (2,)), 0)
        self.giver.tell(PartitionChangeRecord(partition_id=INDEX, topic_id=OFFSETS_ID, leader=2))
        await sending
        return self.taker


@pytest.fixture
async def giver(tmp_path: Path) -> GroupNode:
    directory = tmp_path / "here"
    directory.mkdir()
    return with_topics(GroupNode(directory))


def _answer(node: GroupNode, request: Any, version: int = 3) -> Any:
    key = api_of_request(request).key
    return HANDLERS[key].function(node.broker, context(key, version), request)


def asked(node: GroupNode, request: Any, version: int = 3) -> asyncio.Task[Any]:
    """What becomes of a request."""
    api = api_of_request(request)

    async def answered() -> Any:
        found = _answer(node, request, version)
        found = await found if hasattr(found, "__await__") else found
        return decode(api.response_class, version, found)[0] if isinstance(found, bytes) else found

    return asyncio.create_task(answered())


def groups_of(node: GroupNode) -> list[ClassicGroup]:
    """What it coordinates."""
    hosted = node.groups.hosted(INDEX)
    assert hosted is not None
    return hosted.machine.classic_groups()


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def heard(node: GroupNode, joined: JoinGroupResponse) -> ErrorCode:
    """What a heartbeat is told."""
    beat = HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=joined.generation_id)
    return ErrorCode((await asked(node, beat)).error_code)


def sync(joined: JoinGroupResponse, **given: bytes) -> SyncGroupRequest:
    """The leader says who gets what."""
    assignments = [SyncGroupRequestAssignment(member_id=name, assignment=value) for name, value in given.items()]
    return SyncGroupRequest(
        group_id="orders", member_id=joined.member_id, generation_id=joined.generation_id, assignments=assignments
    )


async def test_a_rebalance_goes_on_where_it_was(giver: GroupNode) -> None:
    await giver.ready()
    first = await stable(giver)
    parked = asked(giver, join_request())
    await some_turns()
    assert await heard(giver, first) == ErrorCode.REBALANCE_IN_PROGRESS
    move = Move(giver)
    held = asked(giver, join_request(member=first.member_id))
    await some_turns()
    taker = await move.make()
    async with asyncio.timeout(10):
        again, second = await held, await parked
    assert (again.member_id, again.generation_id, again.leader) == (first.member_id, 2, first.member_id)
    assert second.generation_id == 2
    assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
    waiting = asked(giver, sync(second))
    await some_turns()
    given = {first.member_id: b"one", second.member_id: b"two"}
    async with asyncio.timeout(10):
        assert (await asked(giver, sync(again, **given))).assignment == b"one"
        assert (await waiting).assignment == b"two"
    assert await heard(giver, second) == ErrorCode.NOT_COORDINATOR, "it is time to look for the coordinator"
    assert await heard(taker, second) == ErrorCode.NONE
    (group,) = groups_of(taker)
    assert {member.client_id for member in group.members.values()} == {"anna"}
    move.departure.end()
    assert not giver.groups.departures
    assert all(link.closed for link in move.links)
    await giver.stop()
    await taker.stop()


async def test_a_generation_that_waits_for_its_assignment_gets_it(giver: GroupNode) -> None:
    await giver.ready()
    first = await stable(giver)
    joining = asked(giver, join_request())
    await some_turns()
    again = await asked(giver, join_request(member=first.member_id))
    second = await joining
    waiting = asked(giver, sync(second))
    await some_turns()
    move = Move(giver)
    taker = await move.make()
    async with asyncio.timeout(10):
        given = {first.member_id: b"one", second.member_id: b"two"}
        assert (await asked(giver, sync(again, **given))).assignment == b"one"
        assert (await waiting).assignment == b"two"
    assert await heard(taker, second) == ErrorCode.NONE
    await giver.stop()
    await taker.stop()


async def test_an_id_that_was_handed_out_may_be_used(giver: GroupNode) -> None:
    await giver.ready()
    told = await asked(giver, join_request(), 4)
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    move = Move(giver)
    taker = await move.make()
    (group,) = groups_of(taker)
    assert list(group.pending) == [told.member_id]
    async with asyncio.timeout(10):
        joined = await asked(giver, join_request(member=told.member_id), 4)
    assert (joined.error_code, joined.member_id, joined.generation_id) == (ErrorCode.NONE, told.member_id, 1)
    await giver.stop()
    await taker.stop()


async def test_commits_go_on_and_are_known_there(giver: GroupNode) -> None:
    await giver.ready()
    joined = await stable(giver)
    own = commit_request(41).replace(member_id=joined.member_id, generation_id_or_member_epoch=joined.generation_id)
    assert (await asked(giver, own, 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
    move = Move(giver)
    other = commit_request(42, partition=1).replace(
        member_id=joined.member_id, generation_id_or_member_epoch=joined.generation_id
    )
    waiting = [
        asked(giver, other, 8),
        asked(giver, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="orders", topics=None)]), 8),
        asked(giver, HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=1)),
    ]
    await some_turns()
    assert not any(one.done() for one in waiting)
    taker = await move.make()
    async with asyncio.timeout(10):
        answer, fetched, beat = await asyncio.gather(*waiting)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetched.groups[0].error_code == beat.error_code == ErrorCode.NONE
    for beats in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT):
        assert not move.departure.takes(beats), "its member looks for the coordinator"
    assert move.departure.takes(ApiKey.OFFSET_COMMIT)
    assert await committed(taker) == {("flights", 0): 41, ("flights", 1): 42}
    gone = LeaveGroupRequest(group_id="orders", members=[MemberIdentity(member_id=joined.member_id)])
    assert (await asked(giver, gone)).members[0].error_code == ErrorCode.NONE
    assert await heard(taker, joined) == ErrorCode.UNKNOWN_MEMBER_ID
    await giver.stop()
    await taker.stop()


async def test_what_was_held_is_answered_here_where_the_groups_stay(giver: GroupNode) -> None:
    await giver.ready()
    joined = await stable(giver)
    move = Move(giver)
    waiting = asked(giver, commit_request(42).replace(member_id=joined.member_id, generation_id_or_member_epoch=1), 8)
    await some_turns()
    assert not waiting.done()
    hosted = giver.groups.hosted(INDEX)
    assert hosted is not None
    hosted.run([])
    assert not hosted._alarm.is_set, "no time passes for it"
    move.departure.resume()
    move.departure.end()
    async with asyncio.timeout(10):
        assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert await heard(giver, joined) == ErrorCode.NONE
    assert hosted._alarm.is_set, "its session goes on"
    await giver.stop()


async def test_who_waits_too_long_looks_for_the_coordinator(giver: GroupNode) -> None:
    await giver.ready()
    joined = await stable(giver)
    move = Move(giver)
    waiting = asked(giver, HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=1))
    await some_turns()
    move.departure.refuse()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert await heard(giver, joined) == ErrorCode.NOT_COORDINATOR, "nobody knows whether it still coordinates"
    await giver.stop()


async def test_what_waits_is_bounded(giver: GroupNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    await giver.ready()
    joined = await stable(giver)
    move = Move(giver)
    waiting = asked(giver, HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=1))
    await some_turns()
    assert await heard(giver, joined) == ErrorCode.NOT_COORDINATOR
    move.departure.resume()
    assert (await waiting).error_code == ErrorCode.NONE
    await giver.stop()


async def test_a_successor_that_is_gone_leaves_nobody_without_an_answer(giver: GroupNode) -> None:
    await giver.ready()
    joined = await stable(giver)
    parked = asked(giver, join_request())
    await some_turns()
    move = Move(giver)
    held = asked(giver, HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=1))
    await some_turns()
    taker = await move.make()
    move.taker = None
    other = asked(giver, join_request(member=joined.member_id))
    async with asyncio.timeout(10):
        assert (await held).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (await other).error_code == ErrorCode.NOT_COORDINATOR
    parked.cancel()
    await giver.stop()
    await taker.stop()


async def test_a_client_that_goes_while_the_successor_is_asked_for_it_hears_nothing(giver: GroupNode) -> None:
    await giver.ready()
    await stable(giver)
    waiting, told, failures = _answer(giver, join_request()), list[object](), list[Any]()
    waiting.listen(SimpleNamespace(told=told.append, failed=told.append))
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    taker = await Move(giver).make()
    await some_turns()
    assert len(groups_of(taker)[0].members) == 2
    tasks = len(asyncio.all_tasks())
    waiting.call_off()
    await some_turns()
    assert (told, failures) == ([], [])
    assert len(asyncio.all_tasks()) < tasks
    await giver.stop()
    await taker.stop()


async def test_groups_that_are_being_read_do_not_go(tmp_path: Path) -> None:
    giver = with_topics(GroupNode(tmp_path))

    async def connect() -> Any:
        raise AssertionError

    partition = giver.table.held[CONSUMER_OFFSETS, INDEX]
    with pytest.raises(KafkaError) as refusal:
        giver.groups.departure_from(partition, connect)
    assert refusal.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await giver.stop()


async def test_a_node_that_ends_hangs_up_whatever_it_waits_for(giver: GroupNode) -> None:
    await giver.ready()
    move = Move(giver)
    await some_turns()
    (link,) = move.links
    link.in_flight = 1
    move.departure.end()
    assert not link.closed, "an answer is to come"
    link.in_flight = 0
    move.departure.end()
    assert link.closed
    link.closed, link.in_flight = False, 1
    move = Move(giver)
    await some_turns()
    (link,) = move.links
    link.in_flight = 1
    move.departure.stop()
    assert link.closed
    await giver.stop()
