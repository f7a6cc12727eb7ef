"""Whom a consumer asks for which partitions, and what it makes of each part of an answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.consumer.fetcher import Fetcher, isolation_level, reset_timestamp
from penstock.client.consumer.subscription import PartitionState, Subscription
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import IsolationLevel, TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.lent_records import LentPartition
from penstock.protocol.uuids import ZERO_UUID

P, Q, R = (TopicPartition("t", number) for number in range(3))
ID = UUID(int=1)


class Paced(ConsumerSettings, kw_only=True):
    def backoff_ms(self, attempt: int) -> float:
        return 0.0


class World:
    """Partitions 0 and 1 are led by node 1 in epoch 4, partition 2 by node 2. What is asked is noted."""

    def __init__(self, **settings: Any) -> None:
        self.leaders = {P: (1, 4), Q: (1, 4), R: (2, -1)}
        self.topic_id = ID
        self.brokers = {1: "one", 2: "two", 3: "three"}
        self.subscription = Subscription()
        self.settings = Paced(**{"auto_offset_reset": "earliest", **settings})
        self.news = 0
        self.refreshed: list[object] = []
        self.fails: list[Exception] = []
        self.made = Fetcher(self, self.subscription, self.settings, self.on_news)  # type: ignore[arg-type]
        self.asked: list[tuple[int, dict[TopicPartition, Any], str]] = []

    def on_news(self) -> None:
        self.news += 1

    @property
    def metadata(self) -> Any:
        def leader(partition: TopicPartition) -> Any:
            found = self.leaders.get(partition)
            return None if found is None else SimpleNamespace(leader=found[0], leader_epoch=found[1])

        topics = {"t": SimpleNamespace(topic_id=self.topic_id)}
        return SimpleNamespace(leader=leader, brokers=self.brokers, topics=topics)

    async def refresh(self, topics: object) -> None:
        self.refreshed.append(topics)
        if self.fails:
            raise self.fails.pop(0)

    def reads(self, *partitions: TopicPartition, offset: int = 5) -> None:
        self.subscription.set_partitions(partitions)
        for partition in partitions:
            self.subscription.seek(partition, offset)

    def state(self, partition: TopicPartition = P) -> PartitionState:
        return self.subscription.state(partition)

    def notes(self) -> None:
        async def fetch(node_id: int, asked: Any, rack: str) -> None:
            self.asked.append((node_id, dict(asked), rack))

        self.made._fetch = fetch  # type: ignore[method-assign]

    async def sends(self) -> list[tuple[int, list[int], str]]:
        self.notes()
        self.made.send()
        for _ in range(4):
            await asyncio.sleep(0)
        return [(node_id, [place.partition for place in asked], rack) for node_id, asked, rack in self.asked]


def records(*offsets: int) -> bytes:
    return b"".join(bytes(encode_batch([Record(value=b"v")], base_offset=at)) for at in offsets)


def held(partition: TopicPartition, *offsets: int) -> FetchedRecords:
    return FetchedRecords(partition, records(*offsets), offsets[0])


# -- whom it asks -----------------------------------------------------------------------------------------------------


async def test_each_leader_is_asked_for_what_it_leads() -> None:
    world = World(max_partition_fetch_bytes=99, client_rack="r")
    world.reads(P, Q, R)
    world.subscription.seek(Q, 8, 3)
    assert await world.sends() == [(1, [0, 1], "r"), (2, [2], "r")]
    first, second = world.asked[0][1].values()
    told = (second.partition, second.current_leader_epoch, second.fetch_offset, second.last_fetched_epoch)
    assert (told, second.partition_max_bytes) == ((1, 4, 8, 3), 99)
    assert (first.fetch_offset, first.last_fetched_epoch) == (5, -1)
    assert world.news == 2


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ("nothing", [(1, [0], "")]),
        ("no position", []),
        ("paused", []),
        ("held", []),
        ("held elsewhere", [(1, [0], "")]),
        ("under way", []),
    ],
)
async def test_what_is_not_asked_for(what: str, asked: list[Any]) -> None:
    world = World()
    world.reads(P)
    if what == "no position":
        world.state().position = None
    elif what == "paused":
        world.state().paused = True
    elif what.startswith("held"):
        world.made._fetched[P] = held(P, 5 if what == "held" else 6)
    elif what == "under way":
        world.made._requests[1] = asyncio.create_task(asyncio.sleep(0))
    assert await world.sends() == asked


@pytest.mark.parametrize(
    ("leader_epoch", "read_epoch", "is_asked"),
    [(4, 4, True), (4, 5, False), (0, 1, False), (-1, 5, True), (5, 4, True)],
)
async def test_a_leader_of_an_earlier_epoch_is_not_asked(leader_epoch: int, read_epoch: int, *, is_asked: bool) -> None:
    world = World()
    world.reads(P)
    world.leaders[P] = 1, leader_epoch
    world.subscription.seek(P, 5, read_epoch)
    assert bool(await world.sends()) == is_asked
    assert world.refreshed == ([] if is_asked else [["t"]])


async def test_epochs_of_another_topic_of_that_name_do_not_count() -> None:
    world = World()
    world.reads(P)
    world.subscription.seek(P, 5, 9)
    assert await world.sends() == []
    world.topic_id = UUID(int=2)
    assert await world.sends() == [(1, [0], "")]
    assert world.state().leader_epoch == -1
    world.subscription.seek(P, 5, 9)
    world.asked.clear()
    assert await world.sends() == [], "it is that topic now"


async def test_without_a_leader_it_is_looked_up_once_and_others_are_asked() -> None:
    world = World()
    world.reads(P, R)
    del world.leaders[P]
    assert await world.sends() == [(2, [2], "")]
    assert world.refreshed == [["t"]]
    world.fails = [ConnectionFailedError("gone")]
    await world.sends()
    world.made.take(1)
    world.fails = [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    await world.sends()
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        world.made.take(1)


@pytest.mark.parametrize(
    ("replica", "left_s", "asked"),
    [
        (3, 60, [(1, [1], "r"), (3, [0], "r")]),
        (3, -60, [(1, [0, 1], "r")]),
        (-1, 60, [(1, [0, 1], "r")]),
        (9, 60, [(1, [0, 1], "")]),
        (1, 60, [(1, [0, 1], "r")]),
    ],
)
async def test_a_replica_is_asked_as_long_as_it_was_named_for(replica: int, left_s: float, asked: list[Any]) -> None:
    """Who named one that nobody knows is asked as from no rack."""
    world = World(client_rack="r")
    world.reads(P, Q)
    world.state().replica = replica
    world.state().replica_until_s = asyncio.get_running_loop().time() + left_s
    assert sorted(await world.sends()) == asked


async def test_a_request_says_what_the_settings_say() -> None:
    world = World(fetch_max_wait_ms=1, fetch_min_bytes=2, fetch_max_bytes=3, isolation_level="read_committed")
    world.reads(P, Q)
    await world.sends()
    (_, asked, _), *_ = world.asked
    request = world.made._request(asked, {"t": ID}, "r")
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level, request.rack_id)
    assert limits == (1, 2, 3, 1, "r")
    assert request.session_epoch == -1
    told = [(topic.topic, topic.topic_id, [row.partition for row in topic.partitions]) for topic in request.topics]
    assert told == [("t", ID, [0, 1])]


# -- answers of the whole ---------------------------------------------------------------------------------------------


class Connection:
    def __init__(self, answer: Any) -> None:
        self.answer, self.address = answer, "h:1"
        self.how: list[Any] = []

    async def request(self, message: Any, answer: object, *, newest: int | None, timeout_ms: int) -> Any:
        self.how.append((newest, timeout_ms, [topic.topic_id for topic in message.topics]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def whole(code: int = 0, *rows: LentPartition) -> Any:
    topic = SimpleNamespace(topic="", topic_id=ID, partitions=list(rows))
    return SimpleNamespace(error_code=code, responses=[topic] if rows else [], node_endpoints=["endpoint"])


async def asks(world: World, answer: Any, learned: set[TopicPartition] | None = None) -> tuple[Connection, list[Any]]:
    connection, told = Connection(answer), list[Any]()

    async def connect(node_id: int) -> Connection:
        assert node_id == 1
        return connection

    def learn(*what: Any) -> set[TopicPartition]:
        told.append(what)
        return learned or set()

    world.connection, world.learn = connect, learn  # type: ignore[attr-defined]
    fetch = world.made._fetch
    await world.sends()
    await fetch(1, world.asked[0][1], "")
    return connection, told


@pytest.mark.parametrize(("topic_id", "newest"), [(ID, None), (ZERO_UUID, 12)])
async def test_topics_go_by_their_ids_where_they_have_some(topic_id: UUID, newest: int | None) -> None:
    world = World(request_timeout_ms=1_000, fetch_max_wait_ms=70)
    world.reads(P)
    world.topic_id = topic_id
    connection, _ = await asks(world, whole())
    assert connection.how == [(newest, 1_070, [topic_id])]


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (ConnectionFailedError("gone"), True),
        (whole(ErrorCode.UNKNOWN_TOPIC_ID), True),
        (whole(ErrorCode.INVALID_REQUEST), False),
        (AuthenticationFailedError("no"), False),
    ],
)
async def test_a_node_that_does_not_answer_well_is_left(answer: Any, *, passes: bool) -> None:
    world = World()
    world.reads(P, Q)
    world.state().replica, world.state(Q).replica = 1, 2
    if passes:
        await asks(world, answer)
        assert (world.state().replica, world.state(Q).replica, world.refreshed) == (-1, 2, [["t"]])
    else:
        with pytest.raises((KafkaError, AuthenticationFailedError)):
            await asks(world, answer)
        assert (world.state().replica, world.refreshed) == (1, [])


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH]
)
@pytest.mark.parametrize("learns", [False, True])
async def test_the_leader_that_a_refusal_names_is_learned_and_else_looked_up(code: ErrorCode, *, learns: bool) -> None:
    world = World()
    world.reads(P)
    refused = LentPartition(partition_index=0, error_code=code)
    _, told = await asks(world, whole(0, refused), {P} if learns else set())
    names = code is not ErrorCode.UNKNOWN_LEADER_EPOCH
    assert told == [(1, {P: refused.current_leader} if names else {}, ["endpoint"])]
    assert world.refreshed == ([] if learns else [["t"]])


# -- answers for a partition ------------------------------------------------------------------------------------------

AGAIN = {
    "NOT_LEADER_OR_FOLLOWER",
    "REPLICA_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "LEADER_NOT_AVAILABLE",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_SERVER_ERROR",
}


def test_which_refusals_have_the_leader_looked_up() -> None:
    for code in ErrorCode:
        world = World()
        world.reads(P)
        looks = world.made._arrived(P, 1, 5, LentPartition(error_code=code))
        assert looks == (code.name in AGAIN)
        is_told = bool(code) and not looks and code is not ErrorCode.OFFSET_OUT_OF_RANGE
        assert (world.made._error is not None) == is_told
        if is_told:
            assert str(world.made._error) == f"{code.name}: partition t-0 at offset 5"


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("replica", [1, -1])
@pytest.mark.parametrize(("reset", "goes_to"), [("earliest", -2), ("latest", -1), ("none", None)])
def test_an_offset_that_is_gone_is_reset_if_its_leader_says_so(
    replica: int, reset: str, goes_to: int | None, *, is_ahead: bool
) -> None:
    world = World(auto_offset_reset=reset)
    world.reads(P)
    world.state().replica = replica
    if is_ahead:
        world.state().ahead = 5, 1
    gone = LentPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not world.made._arrived(P, 1, 5, gone)
    holds = replica == -1 and not is_ahead
    assert world.subscription.to_reset() == ({P: goes_to} if holds and goes_to is not None else {})
    assert (world.made._error is not None) == (holds and reset == "none")
    assert world.state().replica == -1, "a replica may be behind"
    if holds and reset == "none":
        assert "t-0 has no offset 5 any longer, and auto.offset.reset is none" in str(world.made._error)


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("replica", [1, -1])
@pytest.mark.parametrize("reset", ["earliest", "none"])
@pytest.mark.parametrize(("end", "position"), [(0, 0), (3, 3), (9, 5)])
def test_a_log_that_was_cut_is_read_again_from_there(
    end: int, position: int, replica: int, reset: str, *, is_ahead: bool
) -> None:
    world = World(auto_offset_reset=reset)
    world.reads(P)
    world.state().replica = replica
    if is_ahead:
        world.state().ahead = 5, 1
    cut = LentPartition(diverging_epoch=EpochEndOffset(epoch=2, end_offset=end))
    assert not world.made._arrived(P, 1, 5, cut)
    holds = replica == -1 and not is_ahead
    is_told = holds and reset == "none"
    assert world.state().position == (position if holds and not is_told else 5)
    assert (world.made._error is not None) == is_told
    assert P not in world.made._fetched


@pytest.mark.parametrize(("named", "looks"), [(0, True), (3, False), (9, True)])
async def test_a_replica_that_is_named_is_read_from(named: int, *, looks: bool) -> None:
    world = World(metadata_max_age_ms=30_000)
    world.reads(P)
    before_s = asyncio.get_running_loop().time()
    assert world.made._arrived(P, 1, 5, LentPartition(preferred_read_replica=named)) == looks
    until_s = world.state().replica_until_s - 30
    assert world.state().replica == named
    assert before_s <= until_s <= asyncio.get_running_loop().time()


@pytest.mark.parametrize("content", [b"", None, records(5, 6)])
@pytest.mark.parametrize("where", ["there", "sought", "revoked"])
def test_records_are_held_of_where_it_is(content: Any, where: str) -> None:
    world = World()
    world.reads(P)
    if where == "sought":
        world.subscription.seek(P, 7)
    elif where == "revoked":
        world.subscription.set_partitions([])
    row = LentPartition(high_watermark=9, log_start_offset=2, records=content)
    assert not world.made._arrived(P, 1, 5, row)
    assert (P in world.made._fetched) == (bool(content) and where == "there")
    if where == "there":
        assert (world.state().high_watermark, world.state().log_start_offset) == (9, 2)


def test_what_was_aborted_is_left_out() -> None:
    world = World()
    world.reads(P)
    content = bytes(encode_batch([Record(value=b"v")], base_offset=5, producer_id=3, is_transactional=True))
    aborted = [AbortedTransaction(producer_id=3, first_offset=5)]
    world.made._arrived(P, 1, 5, LentPartition(records=content, aborted_transactions=aborted))  # type: ignore[arg-type]
    assert world.made.take(9) == []


# -- what was fetched -------------------------------------------------------------------------------------------------


def test_what_was_fetched_is_taken_up_to_a_limit() -> None:
    world = World()
    world.reads(P, Q, R)
    world.state(Q).paused = True
    world.subscription.seek(R, 7)
    world.made._fetched = {R: held(R, 5), Q: held(Q, 5), P: held(P, 5, 6, 7)}
    assert [record.offset for record in world.made.take(2)] == [5, 6]
    assert (world.state().ahead, list(world.made._fetched)) == ((7, -1), [Q, P]), "that of R was sought elsewhere"
    assert [record.offset for record in world.made.take(2)] == [7]
    assert list(world.made._fetched) == [Q]
    world.state(Q).paused = False
    assert [record.partition for record in world.made.take(1)] == [1]
    assert world.made.take(1) == []


def test_what_cannot_be_read_is_told_behind_what_can() -> None:
    world = World()
    world.reads(P, Q)
    damaged = bytearray(records(5))
    damaged[-2] ^= 1
    world.reads(P, Q, R)
    world.made._fetched = {P: held(P, 5), Q: FetchedRecords(Q, bytes(damaged), 5), R: held(R, 5)}
    assert len(world.made.take(9)) == 1, "and no more, before it is told"
    with pytest.raises(DecodeError, match="the batch at t-1 offset 5"):
        world.made.take(9)
    assert [record.topic_partition for record in world.made.take(9)] == [R]
    assert (world.made.take(9), world.made._fetched) == ([], {})
    world.made._fetched = {Q: FetchedRecords(Q, bytes(damaged), 5)}
    with pytest.raises(DecodeError):
        world.made.take(9)


def test_words_of_the_settings() -> None:
    assert isolation_level(ConsumerSettings(isolation_level="read_committed")) is IsolationLevel.READ_COMMITTED
    assert isolation_level(ConsumerSettings()) is IsolationLevel.READ_UNCOMMITTED
    for reset, at_ms in (("latest", -1), ("earliest", -2), ("none", None), ("by_duration:PT1S", 4_000)):
        assert reset_timestamp(ConsumerSettings(auto_offset_reset=reset, now_ms=lambda: 5_000)) == at_ms


def test_ids_of_topics_that_are_read_no_longer_are_forgotten() -> None:
    world = World()
    world.reads(P)
    world.made._topic_ids = {"u": ID, "v": ID}
    assert world.made._epoch_of(P, world.state()) == -1
    assert world.made._topic_ids == {"t": ID}
