"""A member's heartbeats go on while the application's own code holds its event loop, and end as they should."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.client.consumer import Consumer
from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.consumer.heartbeats import Heartbeats
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.consumer_protocol import decode_subscription, encode_assignment
from penstock.client.errors import AuthenticationFailedError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from penstock.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.schema import Message

PATIENCE_S = 30  # how long a test waits for what must come at once, before it fails
PARTITION = TopicPartition("t", 0)


class Coordinator(FakeCluster):
    """Coordinates a group of one, heartbeats are answered with `answers`, then without error."""

    def __init__(self, answers: Sequence[ErrorCode] = ()) -> None:
        super().__init__()
        self.answers = list(answers)
        self.beats = 0
        self.third_beat = threading.Event()
        self.left = threading.Event()
        self.generation = 0
        self.joins: list[JoinGroupRequest] = []
        self.joins_answered = 1_000

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        match request:
            case JoinGroupRequest():
                self.joins.append(request)
                if len(self.joins) > self.joins_answered:
                    return None
                self.generation += 1
                return JoinGroupResponse(
                    generation_id=self.generation,
                    protocol_name=request.protocols[0].name,
                    leader="somebody else",
                    member_id="m",
                )
            case SyncGroupRequest():
                return SyncGroupResponse(assignment=encode_assignment([PARTITION]))
            case HeartbeatRequest():
                return self._beaten()
            case LeaveGroupRequest():
                self.left.set()
                return LeaveGroupResponse(members=[MemberResponse(member_id="m")])
        if isinstance(request, FetchRequest):
            return self.fetched(request)
        return super().__call__(header, request)

    def _beaten(self) -> Message:
        self.beats += 1
        if self.beats == 3:
            self.third_beat.set()
        return HeartbeatResponse(error_code=self.answers.pop(0) if self.answers else ErrorCode.NONE)

    def fetched(self, request: FetchRequest) -> Message | None:
        """No answer: a test that reads says otherwise."""
        return None


class Listening(RebalanceListener):
    """Begins at offset 0, and does what the test says in the middle of the application's own loop."""

    def __init__(self, consumer: Consumer, wait_for: threading.Event | None = None) -> None:
        self.consumer = consumer
        self.wait_for = wait_for
        self.waited: bool | None = None
        self.calls: list[str] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("assigned")
        for partition in partitions:
            self.consumer.seek(partition, 0)
        if self.wait_for is not None and self.waited is None:
            self.waited = self.wait_for.wait(PATIENCE_S)  # holds the loop, as user code may

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("revoked")

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("lost")


@asynccontextmanager
async def member(
    coordinator: Coordinator, *, enable_auto_commit: bool = False, **others: Any
) -> AsyncIterator[Consumer]:
    """A consumer of the group, whose coordinator runs in another thread."""
    settings = ConsumerSettings(group_id="g", heartbeat_interval_ms=1, enable_auto_commit=enable_auto_commit, **others)
    with served_in_a_thread(coordinator) as broker:
        async with Consumer([broker.address], settings) as consumer:
            yield consumer


async def test_heartbeats_go_on_while_the_application_holds_its_loop() -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        listener = Listening(consumer, coordinator.third_beat)
        await consumer.subscribe(["t"], listener=listener)
        while not listener.calls:
            await consumer.poll(timeout_ms=10)
    assert listener.waited, "no heartbeat came while the application's code ran"


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, ["assigned", "revoked", "assigned"]),
        (ErrorCode.UNKNOWN_MEMBER_ID, ["assigned", "lost", "assigned"]),
        (ErrorCode.ILLEGAL_GENERATION, ["assigned", "lost", "assigned"]),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ["assigned"]),
    ],
)
async def test_what_the_coordinator_answers_is_acted_on_by_the_next_poll(answer: ErrorCode, calls: list[str]) -> None:
    coordinator = Coordinator([answer])
    async with member(coordinator) as consumer:
        listener = Listening(consumer, coordinator.third_beat)
        await consumer.subscribe(["t"], listener=listener)
        if len(calls) > 1:
            listener.wait_for = None
        while len(listener.calls) < len(calls):
            await consumer.poll(timeout_ms=10)
        assert listener.calls == calls


async def test_an_answer_that_does_not_pass_ends_the_next_poll() -> None:
    coordinator = Coordinator([ErrorCode.GROUP_AUTHORIZATION_FAILED])
    async with member(coordinator) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.poll(timeout_ms=PATIENCE_S * 1000)


async def test_who_does_not_poll_leaves_although_its_loop_is_held() -> None:
    coordinator = Coordinator()
    async with member(coordinator, max_poll_interval_ms=1) as consumer:
        listener = Listening(consumer, coordinator.left)
        await consumer.subscribe(["t"], listener=listener)
        while "lost" not in listener.calls:
            await consumer.poll(timeout_ms=10)
    assert listener.waited, "the member did not leave while the application's code ran"


class CoordinatorWithRecords(Coordinator):
    """From the second join on, which it does not answer, there is a record to fetch."""

    def __init__(self) -> None:
        super().__init__([ErrorCode.REBALANCE_IN_PROGRESS])
        self.joins_answered = 1

    def fetched(self, request: FetchRequest) -> Message | None:
        if len(self.joins) < 2:
            return FetchResponse()
        records = bytes(encode_batch([Record(value=b"v")]))
        rows = [PartitionData(partition_index=0, high_watermark=1, records=records)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])


async def test_a_cooperative_member_reads_on_while_its_group_rebalances() -> None:
    coordinator = CoordinatorWithRecords()
    strategy = ("cooperative-sticky",)
    async with member(coordinator, partition_assignment_strategy=strategy) as consumer:
        listener = Listening(consumer)
        await consumer.subscribe(["t"], listener=listener)
        records: list[ConsumedRecord] = []
        while not records:
            records = await consumer.poll(timeout_ms=10)
        assert [record.value for record in records] == [b"v"]
        assert listener.calls == ["assigned"]
    owned = decode_subscription("m", None, coordinator.joins[1].protocols[0].metadata)
    assert (owned.owned, owned.generation) == ((PARTITION,), 1)


class GoneOn(Coordinator):
    """Knows the member no longer when it joins for the second time; the third time it is not told what it gets."""

    def __init__(self) -> None:
        super().__init__([ErrorCode.REBALANCE_IN_PROGRESS])
        self.syncs = 0
        self.commits: list[OffsetCommitRequest] = []

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        if isinstance(request, JoinGroupRequest) and len(self.joins) == 1:
            self.joins.append(request)
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(request, SyncGroupRequest):
            self.syncs += 1
            if self.syncs == 2:
                return None
        if isinstance(request, OffsetCommitRequest):
            self.commits.append(request)
            return OffsetCommitResponse()
        return super().__call__(header, request)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("enable_auto_commit", [False, True])
async def test_a_member_that_comes_back_as_somebody_else_commits_nothing_of_what_it_held(
    enable_auto_commit: bool,
) -> None:
    coordinator = GoneOn()
    strategy = ("cooperative-sticky",)
    async with member(
        coordinator,
        enable_auto_commit=enable_auto_commit,
        partition_assignment_strategy=strategy,
        auto_commit_interval_ms=3_600_000,
    ) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        while coordinator.syncs < 2:
            await consumer.poll(timeout_ms=10)
        assert consumer.assignment == [PARTITION], "it reads on"
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            await consumer.commit()
    assert coordinator.commits == [], "another member may have committed more since"


class BackAtOnce(GoneOn):
    """The member is back as somebody else, with the partition that it had, before it polls again."""

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        if isinstance(request, SyncGroupRequest):
            return Coordinator.__call__(self, header, request)  # type: ignore[no-untyped-call]
        return super().__call__(header, request)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
async def test_a_member_that_comes_back_as_somebody_else_begins_anew_with_what_it_is_given(strategy: str) -> None:
    """Another member may have read and committed it meanwhile."""
    coordinator = BackAtOnce()
    async with member(coordinator, enable_auto_commit=True, partition_assignment_strategy=(strategy,)) as consumer:
        listener = Listening(consumer)
        await consumer.subscribe(["t"], listener=listener)
        while listener.calls.count("assigned") < 2:
            await consumer.poll(timeout_ms=10)
        given_up = "lost" if strategy == "cooperative-sticky" else "revoked"
        assert listener.calls == ["assigned", given_up, "assigned"]
        assert consumer.assignment == [PARTITION]


class Unreachable(Coordinator):
    """Ends the connection instead of answering heartbeats: nobody tells it that the member lives."""

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        if isinstance(request, HeartbeatRequest):
            self.beats += 1
            return b""
        return super().__call__(header, request)  # type: ignore[no-untyped-call]


async def test_a_member_whose_coordinator_cannot_be_reached_for_a_session_is_lost() -> None:
    coordinator = Unreachable()
    async with member(coordinator, session_timeout_ms=50, retry_backoff_ms=1, retry_backoff_max_ms=1) as consumer:
        listener = Listening(consumer)
        await consumer.subscribe(["t"], listener=listener)
        while "lost" not in listener.calls:
            await consumer.poll(timeout_ms=10)
            assert coordinator.beats < 1_000, "it goes on although its session is long over"
    assert listener.calls[:2] == ["assigned", "lost"]


class Leaving(Coordinator):
    """Asks for a commit until there was one; `can` is what the member says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.can: list[bool] = []
        self.commits: list[OffsetCommitRequest] = []
        self.has_committed = threading.Event()

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        if isinstance(request, OffsetCommitRequest):
            self.commits.append(request)
            self.has_committed.set()
            return OffsetCommitResponse()
        if isinstance(request, HeartbeatRequest):
            self.can.append(request.commits_when_asked)
            self._beaten()
            return HeartbeatResponse(commit_now=request.commits_when_asked and not self.commits)
        return super().__call__(header, request)  # type: ignore[no-untyped-call]


async def test_a_member_commits_when_its_coordinator_is_about_to_go() -> None:
    coordinator = Leaving()
    never_ms = 3_600_000
    async with member(coordinator, enable_auto_commit=True, auto_commit_interval_ms=never_ms) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        while not coordinator.commits:
            await consumer.poll(timeout_ms=10)
        commit = coordinator.commits[0]
        assert (commit.member_id, commit.generation_id_or_member_epoch) == ("m", 1)
        assert [row.committed_offset for topic in commit.topics for row in topic.partitions] == [0]


async def test_a_poll_that_waits_is_woken_for_it() -> None:
    coordinator = Leaving()
    async with member(coordinator, enable_auto_commit=True, auto_commit_interval_ms=3_600_000) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        polling = asyncio.create_task(consumer.poll(timeout_ms=3_600_000))
        assert await asyncio.to_thread(coordinator.has_committed.wait, PATIENCE_S)
        polling.cancel()


async def test_who_commits_by_itself_does_not_say_that_it_can() -> None:
    coordinator = Leaving()
    async with member(coordinator) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        while not coordinator.third_beat.is_set():
            await consumer.poll(timeout_ms=10)
    assert not any(coordinator.can)
    assert not coordinator.commits


async def _fault(*what: object) -> None:
    raise RuntimeError("a fault of ours")


async def test_heartbeats_do_not_end_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeats, "_beat_once", _fault)
    async with member(Coordinator()) as consumer:
        await consumer.subscribe(["t"], listener=Listening(consumer))
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await consumer.poll(timeout_ms=PATIENCE_S * 1000)


async def test_a_member_that_could_not_join_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was that failed: a log-in, an answer that cannot be read."""
    join, failures = GroupMembership._join_once, [AuthenticationFailedError("the password was changed")]

    async def joins(self: GroupMembership, topics: Collection[str]) -> list[TopicPartition]:
        if failures:
            raise failures.pop()
        return await join(self, topics)

    monkeypatch.setattr(GroupMembership, "_join_once", joins)
    async with member(Coordinator()) as consumer:
        listener = Listening(consumer)
        await consumer.subscribe(["t"], listener=listener)
        with pytest.raises(AuthenticationFailedError):
            await consumer.poll(timeout_ms=PATIENCE_S * 1000)
        for _ in range(100):
            await consumer.poll(timeout_ms=10)
            if listener.calls:
                break
        assert listener.calls == ["assigned"]


class Deaf(Coordinator):
    """Answers no commit."""

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        return None if isinstance(request, OffsetCommitRequest) else super().__call__(header, request)  # type: ignore[no-untyped-call]


async def test_a_member_that_cannot_be_closed_in_time_lives_no_longer() -> None:
    coordinator = Deaf()
    settings = ConsumerSettings(group_id="g", heartbeat_interval_ms=1, enable_auto_commit=True)
    with served_in_a_thread(coordinator) as broker:
        consumer = Consumer([broker.address], settings)
        await consumer.start()
        await consumer.subscribe(["t"], listener=Listening(consumer, coordinator.third_beat))
        while not coordinator.third_beat.is_set():
            await consumer.poll(timeout_ms=10)
        await consumer.close(timeout_ms=1)
        assert not [it for it in threading.enumerate() if it.name.startswith("heartbeats of group")]


class Failing(Listening):
    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        raise RuntimeError("the application's")


@pytest.mark.parametrize("end", [Consumer.close, Consumer.unsubscribe])
async def test_a_member_whose_listener_fails_at_the_end_leaves_all_the_same(
    end: Callable[[Consumer], Awaitable[None]],
) -> None:
    coordinator = Coordinator()
    with served_in_a_thread(coordinator) as broker:
        consumer = Consumer([broker.address], ConsumerSettings(group_id="g", enable_auto_commit=False))
        await consumer.start()
        listener = Failing(consumer)
        await consumer.subscribe(["t"], listener=listener)
        while not listener.calls:
            await consumer.poll(timeout_ms=10)
        with pytest.raises(RuntimeError, match="the application's"):
            await end(consumer)
        assert coordinator.left.is_set()
        if end is Consumer.unsubscribe:
            await consumer.poll(timeout_ms=10)
            assert len(coordinator.joins) == 1, "it reads nothing"
            await consumer.close()
