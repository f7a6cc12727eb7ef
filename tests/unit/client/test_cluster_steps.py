"""What a client of a cluster decides by itself: what it tries again, how long, whom it asks, and what it remembers."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.client import cluster as clusters
from penstock.client.cluster import ClusterClient, _Purpose, is_passing, topic_may_come
from penstock.client.errors import AnswerTooLargeError, ClientClosedError, ConnectionFailedError
from penstock.client.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

HOME = Address("home", 9)


class Paced(ClientSettings, kw_only=True):
    """The pause after a failure is as many seconds as there were before."""

    def backoff_ms(self, attempt: int) -> float:
        return 1_000.0 * attempt


class Clock:
    """Time that goes on as somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.paused: list[float] = []
        loop = SimpleNamespace(time=lambda: self.now_s)
        monkeypatch.setattr(clusters, "asyncio", stand_in(asyncio, sleep=self.sleep, get_running_loop=lambda: loop))

    async def sleep(self, pause_s: float) -> None:
        self.paused.append(pause_s)
        self.now_s += pause_s


class Cluster(ClusterClient):
    """Notes what is refreshed, and then knows `found`."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        super().__init__([HOME], settings or Paced(default_api_timeout_ms=10_000))
        self.refreshed: list[object] = []
        self.found: list[ClusterMetadata | Exception] = []

    async def refresh(self, topics: Any = None, *, create: bool = False) -> ClusterMetadata:
        self.refreshed.append((topics, create))
        found = self.found.pop(0) if self.found else self.metadata
        if isinstance(found, Exception):
            raise found
        self.metadata = found
        return found


def topic(*leaders: int, error: ErrorCode = ErrorCode.NONE) -> TopicMetadata:
    rows = {
        number: PartitionMetadata("t", number, leader, 0, [], [], [], ErrorCode.NONE)
        for number, leader in enumerate(leaders)
    }
    return TopicMetadata("t", UUID(int=1), False, error, rows)


def knowing(*nodes: int, **topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata("c", -1, {node: BrokerMetadata(node, Address("h", node)) for node in nodes}, topics)


# -- trying again -----------------------------------------------------------------------------------------------------


def test_which_failures_pass() -> None:
    for code in ErrorCode:
        error = KafkaError(code)
        assert is_passing(error) == (error.retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert topic_may_come(error) == error.retriable
    assert KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).retriable
    others = (ConnectionFailedError("gone"), AnswerTooLargeError("large"), ValueError("a fault"))
    assert isinstance(others[1], ConnectionFailedError)
    for may_pass in (is_passing, topic_may_come):
        assert [may_pass(error) for error in others] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "looks"),
    [
        (ConnectionFailedError("gone"), True),
        (KafkaError(ErrorCode.NOT_CONTROLLER), True),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE), True),
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), False),
    ],
)
@pytest.mark.parametrize(("limit_ms", "paused"), [(None, [0, 1, 2, 3]), (6_001, [0, 1, 2, 3]), (6_000, [0, 1, 2])])
async def test_pauses_grow_until_the_next_would_be_too_late(
    monkeypatch: pytest.MonkeyPatch, error: Exception, limit_ms: int | None, paused: list[float], *, looks: bool
) -> None:
    clock, cluster, tries = Clock(monkeypatch), Cluster(), []

    async def attempt() -> None:
        tries.append(clock.now_s)
        raise error

    with pytest.raises(type(error)) as raised:
        await cluster.retrying(attempt, timeout_ms=limit_ms, passing=lambda one: one is error)
    assert raised.value is error
    assert (clock.paused, len(tries)) == (paused, len(paused) + 1)
    assert cluster.refreshed == ([([], False)] * len(paused) if looks else [])


async def test_what_else_may_pass_is_said_by_who_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    errors: list[Exception] = [KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), ConnectionFailedError("gone")]

    async def attempt() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert await Cluster().retrying(attempt, passing=lambda _: True) == "done"
    errors.append(ConnectionFailedError("gone"))
    with pytest.raises(ConnectionFailedError):
        await Cluster().retrying(attempt, passing=lambda _: False)


async def test_to_look_again_is_of_each_topic_once_and_fails_in_silence() -> None:
    cluster = Cluster()
    places = [TopicPartition(*it) for it in (("b", 0), ("a", 1), ("b", 1))]
    cluster.found = [ConnectionFailedError("gone"), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)]
    for of in (places, places[:1], []):
        await cluster.look_again(of)
    assert cluster.refreshed == [(["a", "b"], False), (["b"], False), ([], False)]


@pytest.mark.parametrize(
    ("code", "text"), [(ErrorCode.NONE, None), (ErrorCode.NOT_CONTROLLER, "a"), (ErrorCode.INVALID_REQUEST, "b")]
)
async def test_a_controller_is_asked_again_while_its_refusal_may_pass(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, text: str | None
) -> None:
    Clock(monkeypatch)
    cluster, asked = Cluster(), []

    async def to_controller(message: Any, answer: Any) -> Any:
        asked.append(message)
        number = code if len(asked) == 1 else 0
        return (
            SimpleNamespace(error_code=number, error_message=text)
            if text != "b"
            else SimpleNamespace(error_code=number)
        )

    cluster.to_controller = to_controller  # type: ignore[method-assign]
    if code is ErrorCode.INVALID_REQUEST:
        with pytest.raises(KafkaError, match="INVALID_REQUEST: about it"):
            await cluster.from_controller(MetadataRequest(), MetadataResponse, None, "about it")
    else:
        answer: Any = await cluster.from_controller(MetadataRequest(), MetadataResponse)
        assert answer.error_code == 0
    assert len(asked) == (2 if code is ErrorCode.NOT_CONTROLLER else 1)


# -- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "is_asked"),
    [
        (None, True),
        (topic(1, 0), False),
        (topic(), True),
        (topic(1, -1), True),
        (topic(1, error=ErrorCode.LEADER_NOT_AVAILABLE), True),
    ],
)
@pytest.mark.parametrize("create", [False, True])
async def test_a_topic_of_which_something_is_missing_is_asked_for(
    known: TopicMetadata | None, *, create: bool, is_asked: bool
) -> None:
    cluster = Cluster()
    cluster.metadata = knowing(1) if known is None else knowing(1, t=known)
    cluster.found = [knowing(1, t=topic(1))]
    assert await cluster.topic("t", create=create) is (cluster.metadata.topics["t"] if is_asked else known)
    assert cluster.refreshed == ([(["t"], create)] if is_asked else [])


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (knowing(1), "UNKNOWN_TOPIC_OR_PARTITION: topic 't' does not exist"),
        (knowing(1, t=topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), "PARTITION: topic 't' does not exist"),
        (knowing(1, t=topic(error=ErrorCode.INVALID_TOPIC_EXCEPTION)), "'t' is no name for a topic: at most 249"),
        (knowing(1, t=topic(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)), "TOPIC_AUTHORIZATION_FAILED: topic 't'$"),
        (knowing(1, t=topic(error=ErrorCode.LEADER_NOT_AVAILABLE)), None),
    ],
)
@pytest.mark.parametrize("create", [False, True])
async def test_a_topic_that_was_just_created_may_come(
    monkeypatch: pytest.MonkeyPatch, found: ClusterMetadata, text: str | None, *, create: bool
) -> None:
    Clock(monkeypatch)
    cluster = Cluster()
    cluster.found = [found, knowing(1, t=topic(1))]
    if text is None or (create and "does not exist" in text):
        assert (await cluster.topic("t", create=create)).partitions
    else:
        with pytest.raises(KafkaError, match=text):
            await cluster.topic("t", create=create)


async def test_how_long_a_topic_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, cluster = Clock(monkeypatch), Cluster()
    cluster.found = [knowing(1, t=topic(error=ErrorCode.LEADER_NOT_AVAILABLE))] * 99
    with pytest.raises(KafkaError):
        await cluster.topic("t", timeout_ms=1_001)
    assert clock.paused == [0, 1]


class Answering:
    """A connection that is always there."""

    def __init__(self, in_flight: int = 0, version: int = 4) -> None:
        self.in_flight, self.version, self.closed, self.address = in_flight, version, False, HOME
        self.asked: list[Any] = []
        self.refused: dict[str, int] = {}
        self.places: dict[str, int] = {}

    def version_for(self, key: object) -> int:
        return self.version

    def serves(self, key: object) -> bool:
        return True

    async def request(self, message: Any, answer: object, *, newest: object = None) -> Any:
        self.asked.append(message)
        if not isinstance(message, FindCoordinatorRequest):
            return MetadataResponse()
        if self.version < 4:
            key = message.key
            return FindCoordinatorResponse(error_code=self.refused.get(key, 0), node_id=self.places.get(key, 1))
        rows = [
            Coordinator(key=key, node_id=self.places.get(key, 1), error_code=self.refused.get(key, 0))
            for key in message.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=rows)


async def test_topics_are_old_when_the_least_recent_look_is() -> None:
    """Beside a plain reading of all looks."""
    random, cluster = Random(5), ClusterClient([HOME], ClientSettings(metadata_max_age_ms=7_000))
    cluster._seed = Answering()  # type: ignore[assignment]
    looked: dict[str, float] = {}
    of_all, now_s, loop = float("-inf"), 50.0, asyncio.get_running_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: now_s)
        for _ in range(300):
            now_s += random.choice((0, 1, 2, 3))
            topics = random.choice((None, [], ["a"], ["b", "c"], ["a", "c"]))
            await cluster.refresh(topics)
            if topics is None:
                of_all = now_s
            for name in topics or ():
                looked[name] = now_s
            asked = random.choice((None, [], ["a"], ["b", "a"], ["d"]))
            looks = [of_all] if asked is None else [max(of_all, looked.get(name, of_all)) for name in asked]
            old_at_s = min(looks, default=float("inf")) + 7
            assert (cluster.old_at_s(asked), cluster.is_old(asked)) == (old_at_s, old_at_s <= now_s)


# -- whom it asks -----------------------------------------------------------------------------------------------------


def linked(cluster: ClusterClient, purpose: _Purpose, connection: Answering | None) -> None:
    cluster._links[purpose] = SimpleNamespace(connection=connection)  # type: ignore[assignment]


async def test_any_broker_is_the_least_busy_of_those_that_coordinate_nothing() -> None:
    cluster = Cluster()
    busy, idle, seed = Answering(3), Answering(1), Answering(0)
    cluster._seed = seed  # type: ignore[assignment]
    linked(cluster, _Purpose(1, coordinator=True), Answering(0))
    linked(cluster, _Purpose(4), None)
    assert await cluster.any_connection() is seed  # type: ignore[comparison-overlap]
    linked(cluster, _Purpose(2), busy)
    assert await cluster.any_connection() is busy  # type: ignore[comparison-overlap]
    linked(cluster, _Purpose(3), idle)
    assert await cluster.any_connection() is idle  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
@pytest.mark.parametrize("nodes", [(), (1, 2)])
async def test_without_one_each_known_broker_is_tried_and_then_the_bootstrap_servers(
    strategy: str, nodes: tuple[int, ...]
) -> None:
    cluster, tried = Cluster(Paced(metadata_recovery_strategy=strategy)), []
    cluster.metadata = knowing(*nodes)
    closed = Answering()
    closed.closed = True
    cluster._seed = closed  # type: ignore[assignment]

    async def connection(node_id: int) -> Any:
        tried.append(node_id)
        raise ConnectionFailedError(f"no {node_id}")

    async def connect_seed() -> Any:
        return "a bootstrap server"

    cluster.connection = connection  # type: ignore[method-assign]
    cluster._connect_seed = connect_seed  # type: ignore[method-assign]
    if strategy == "none" and nodes:
        with pytest.raises(ConnectionFailedError, match="no 2"):
            await cluster.any_connection()
    else:
        assert await cluster.any_connection() == "a bootstrap server"  # type: ignore[comparison-overlap]
    assert tried == list(nodes)


@pytest.mark.parametrize(("named", "asked"), [(-1, "any"), (3, "any"), (2, 2)])
async def test_a_controller_that_is_not_known_is_asked_by_way_of_others(named: int, asked: object) -> None:
    cluster = Cluster()
    cluster.metadata = knowing(1, 2).replace(controller_id=named)

    async def to_node(node_id: int, *_: object) -> Any:
        return node_id

    async def to_any(*_: object) -> Any:
        return "any"

    cluster.to_node, cluster.to_any = to_node, to_any  # type: ignore[method-assign, assignment]
    assert await cluster.to_controller(MetadataRequest(), MetadataResponse) == asked


async def test_a_coordinator_is_looked_up_if_it_is_not_known_or_not_there() -> None:
    cluster, answering = Cluster(), Answering()
    cluster._seed = answering  # type: ignore[assignment]
    cluster.metadata = knowing(1, 2)
    assert [await cluster.coordinator("g", kind) for kind in (0, 0, 1, 1)] == [1] * 4
    assert [(one.key_type, one.coordinator_keys) for one in answering.asked] == [(0, ["g"]), (1, ["g"])]
    assert cluster.refreshed == []
    answering.places["g"] = 5
    cluster.metadata = knowing(2)
    assert await cluster.coordinator("g") == 5
    assert (len(answering.asked), cluster.refreshed) == (3, [([], False)])
    cluster.forget_coordinator("g")
    cluster.forget_coordinator("g")
    assert cluster._coordinators == {(1, "g"): 1}


@pytest.mark.parametrize("version", [3, 4])
async def test_the_coordinators_of_many_are_asked_for_if_they_are_not_known(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(clusters, "KEYS_AT_ONCE", 2)
    cluster, answering = Cluster(), Answering(version=version)
    cluster._seed = answering  # type: ignore[assignment]
    cluster.metadata = knowing(1, 2)
    cluster._coordinators.update({(0, "known"): 2, (0, "gone"): 7, (1, "a"): 2})
    answering.refused = {"b": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    answering.places = {"c": 9}
    keys = ["a", "known", "b", "gone", "d", "c"]
    found = await cluster.coordinators(keys)
    assert found == {"a": 1, "known": 2, "gone": 1, "d": 1}
    asked = [(one.key_type, one.coordinator_keys or [one.key]) for one in answering.asked]
    parts = [["a"], ["b"], ["gone"], ["d"], ["c"]] if version == 3 else [["a", "b"], ["gone", "d"], ["c"]]
    assert asked == [(0, part) for part in parts]
    assert cluster.refreshed == [([], False)]
    answering.refused, answering.places = {}, {}
    assert await cluster.coordinators(["b", "a"], 1) == {"b": 1, "a": 2}
    assert answering.asked[-1].key_type == 1
    count = len(answering.asked)
    assert await cluster.coordinators(["known", "d"]) == {"known": 2, "d": 1}
    assert (len(answering.asked), cluster.refreshed) == (count, [([], False)]), "all of them are there"


def test_who_is_to_know_a_group_gets_its_coordinator_first() -> None:
    cluster = Cluster()
    cluster.metadata = knowing(1, 2, 3)
    known = [Address("h", node) for node in (1, 2, 3)]
    assert cluster.addresses_for("g") == [*known, HOME]
    cluster._coordinators.update({(0, "g"): 3, (0, "h"): 2, (0, "i"): 9, (1, "i"): 3})
    assert cluster.addresses_for("g") == [known[2], known[0], known[1], HOME]
    assert cluster.addresses_for("i") == [*known, HOME]


@pytest.mark.parametrize(
    ("error", "forgets"), [(ConnectionFailedError("gone"), True), (KafkaError(ErrorCode.NOT_COORDINATOR), False)]
)
@pytest.mark.parametrize("kind", [0, 1])
async def test_a_coordinator_that_cannot_be_reached_is_forgotten(error: Exception, kind: int, *, forgets: bool) -> None:
    cluster = Cluster()
    cluster._coordinators.update({(0, "g"): 1, (1, "g"): 2})

    async def fails(*_: object, **__: object) -> Any:
        raise error

    cluster.coordinator_connection = fails  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        await cluster.to_coordinator("g", MetadataRequest(), MetadataResponse, key_type=kind)
    assert cluster._coordinators == {
        of: at for of, at in {(0, "g"): 1, (1, "g"): 2}.items() if of[0] != kind or not forgets
    }


async def test_what_is_found_after_the_end_is_left() -> None:
    cluster, why = ClusterClient([HOME]), list[str]()

    async def connect(address: Address) -> Any:
        await cluster.close()
        return SimpleNamespace(abort=why.append)

    cluster._reconnects = SimpleNamespace(connect=connect)  # type: ignore[assignment]
    with pytest.raises(ClientClosedError, match="this client is closed"):
        await cluster.start()
    assert (why, cluster._seed) == (["the client was closed meanwhile"], None)


async def test_who_begins_anew_forgets_coordinators_and_gives_up_what_is_open() -> None:
    cluster, told = ClusterClient([HOME]), list[str]()
    made: Any = cluster
    made._seed = SimpleNamespace(abort=lambda why: told.append(f"seed: {why}"))
    made._links[_Purpose(1)] = SimpleNamespace(give_up=lambda why: told.append(f"link: {why}"))
    cluster._coordinators[0, "g"] = 1
    for _ in range(2):
        cluster._begin_anew("so it is")
    link, seed = (f"{of}: the client begins anew, as so it is" for of in ("link", "seed"))
    assert told == [link, seed, link], "the seed is let go"
    assert not cluster._coordinators
    assert cluster.metadata.brokers == {}
