"""Which connections a client without an event loop opens, keeps and lends, and how long it tries."""

import errno
import ssl
import time
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.client import blocking
from penstock.client.blocking import (
    BlockingCluster,
    ClusterSettings,
    UnknownTopicError,
    may_succeed_later,
    now_ms,
    reason_of,
)
from penstock.client.blocking.connection import BlockingConnection, ClusterUnreachable
from penstock.client.metadata import ClusterMetadata
from penstock.client.security import Security
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.tls.faults import fault_of

HOME, HERE, THERE = Address("home", 1), Address("here", 2), Address("there", 3)
TOPICS = {
    "t": MetadataResponseTopic(
        name="t",
        topic_id=UUID(int=1),
        partitions=[
            MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in enumerate((2, 3, 2))
        ],
    ),
    "old": MetadataResponseTopic(name="old", partitions=[MetadataResponsePartition(partition_index=0, leader_id=2)]),
    "denied": MetadataResponseTopic(name="denied", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "none": MetadataResponseTopic(name="none", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


class Fake:
    """A connection to a broker at `address` of a cluster whose brokers are at HERE and THERE."""

    made: list["Fake"]
    unreachable: dict[Address, OSError]

    def __init__(self, address: Address, **how: Any) -> None:
        self.address, self.how = address, how
        self.is_usable = self.is_idle = True
        self.is_closed = False
        self.asked: list[Any] = []
        if address in self.unreachable:
            raise self.unreachable[address]
        self.made.append(self)

    def close(self) -> None:
        self.is_closed, self.is_usable = True, False

    def version_of(self, key: object) -> int:
        return 3

    def request(self, key: object, request: Any, answer: object) -> Any:
        self.asked.append(request)
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(node_id=2 + request.key_type, host=HERE.host, port=HERE.port)
        assert isinstance(request, MetadataRequest)
        named = TOPICS.values() if request.topics is None else [TOPICS[str(one.name)] for one in request.topics]
        brokers = [MetadataResponseBroker(node_id=at.port, host=at.host, port=at.port) for at in (HERE, THERE)]
        return MetadataResponse(brokers=brokers, topics=list(named))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> BlockingCluster:
    Fake.made, Fake.unreachable = [], {}
    monkeypatch.setattr(blocking, "BlockingConnection", Fake)
    return BlockingCluster(ClusterSettings((HOME,), client_id="me", connect_timeout_ms=11, request_timeout_ms=12))


def opened() -> list[Address]:
    return [one.address for one in Fake.made]


def asked() -> list[Any]:
    return [request for one in Fake.made for request in one.asked]


def fake(connection: BlockingConnection) -> Fake:
    assert isinstance(connection, Fake)
    return connection


# -- connections ------------------------------------------------------------------------------------------------------


def test_one_connection_is_shared_as_long_as_it_is_usable(cluster: BlockingCluster) -> None:
    first = fake(cluster.connection(HERE))
    assert cluster.connection(HERE) is first  # type: ignore[comparison-overlap]
    assert first.how == {
        "client_id": "me",
        "connect_timeout_ms": 11,
        "request_timeout_ms": 12,
        "tls": None,
        "log_in": None,
    }
    first.is_usable = False
    second = fake(cluster.connection(HERE))
    assert (second is first, first.is_closed, second.is_closed) == (False, True, False)
    second.is_usable = False
    Fake.unreachable[HERE] = OSError(errno.ECONNREFUSED, "refused")
    with pytest.raises(OSError, match="refused"):
        cluster.connection(HERE)
    assert second.is_closed, "also where no other can be had"
    cluster.drop(HERE)


def test_one_of_ones_own_is_lent_again(cluster: BlockingCluster) -> None:
    shared, mine = fake(cluster.connection(HERE)), fake(cluster.own_connection(HERE))
    assert shared is not mine
    cluster.give_back(HERE, mine)  # type: ignore[arg-type]
    assert cluster.own_connection(HERE) is mine  # type: ignore[comparison-overlap]
    other = fake(cluster.own_connection(HERE))
    assert (other is mine, other is shared) == (False, False)
    for one in (mine, other):
        cluster.give_back(HERE, one)  # type: ignore[arg-type]
    assert (mine.is_closed, other.is_closed) == (False, True), "one is spare"
    mine.is_usable = False
    another = fake(cluster.own_connection(HERE))
    assert (mine.is_closed, another is mine, another.is_closed) == (True, False, False)
    another.is_idle = False
    cluster.give_back(HERE, another)  # type: ignore[arg-type]
    assert another.is_closed, "an answer is still to come"
    spare = fake(cluster.own_connection(HERE))
    cluster.give_back(HERE, spare)  # type: ignore[arg-type]
    cluster.close()
    assert all(one.is_closed for one in Fake.made)
    assert fake(cluster.own_connection(HERE)) is not spare


@pytest.mark.parametrize(
    ("protocol", "over_tls", "logs_in"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_what_a_protocol_adds(monkeypatch: pytest.MonkeyPatch, protocol: str, *, over_tls: bool, logs_in: bool) -> None:
    Fake.made, Fake.unreachable = [], {}
    monkeypatch.setattr(blocking, "BlockingConnection", Fake)
    monkeypatch.setattr(Security, "context", lambda self: "context")
    security = Security()
    cluster = BlockingCluster(ClusterSettings((HOME,), security_protocol=protocol, security=security))
    how = fake(cluster.new_connection(HERE)).how
    assert how["tls"] == ("context" if over_tls else None)
    assert how["log_in"] == (security.steps if logs_in else None)


def test_an_address_that_a_broker_tells_in_vain_is_named_and_a_bootstrap_server_is_not(
    cluster: BlockingCluster,
) -> None:
    error = OSError(errno.ECONNREFUSED, "refused")
    Fake.unreachable = {HOME: error, HERE: error}
    with pytest.raises(OSError, match="refused") as raised:
        cluster.new_connection(HOME)
    assert raised.value is error
    with pytest.raises(ClusterUnreachable) as unreachable:
        cluster.new_connection(HERE)
    assert str(unreachable.value) == (
        "The cluster at home:1 says that one of its brokers listens at here:2, but nothing answers there (refused). "
        "Check the broker's advertised.listeners."
    )
    assert unreachable.value.__cause__ is error
    assert not cluster._was_reached
    cluster.new_connection(THERE)
    assert cluster._was_reached


def test_any_broker_is_one_that_is_open_else_the_first_that_answers(cluster: BlockingCluster) -> None:
    assert fake(cluster.any_broker()).address == HOME
    cluster.look_at_brokers()
    assert fake(cluster.any_broker()).address == HOME
    there = fake(cluster.connection(THERE))
    Fake.made[0].is_usable = False
    assert cluster.any_broker() is there  # type: ignore[comparison-overlap]
    there.is_usable = False
    Fake.unreachable = {HOME: OSError(errno.ECONNREFUSED, "refused"), HERE: OSError("gone")}
    assert (fake(cluster.any_broker()).address, opened()) == (THERE, [HOME, THERE, THERE])
    Fake.unreachable[THERE] = TimeoutError()
    cluster.drop(THERE)
    with pytest.raises(ClusterUnreachable) as unreachable:
        cluster.any_broker()
    told = "The cluster at home:1 says that one of its brokers listens at {}, but nothing answers there ({})."
    cure = " Check the broker's advertised.listeners."
    assert str(unreachable.value) == (
        f"No broker answers at home:1 (refused), here:2 ({told.format(HERE, 'gone')}{cure}), there:3 "
        f"({told.format(THERE, 'TimeoutError')}{cure}). Check that the cluster is running, that "
        "kafka.bootstrap.servers is right, and that no firewall stands between."
    )


# -- what is known ----------------------------------------------------------------------------------------------------


def test_what_is_asked_about_topics(cluster: BlockingCluster) -> None:
    assert cluster.partitions_of(iter(["t"])) == {"t": [0, 1, 2]}
    assert cluster.partitions_of(["old", "t"], may_create=True) == {"old": [0], "t": [0, 1, 2]}
    assert cluster.partitions_there(iter(["denied", "old", "none", "t"])) == {"old": [0], "t": [0, 1, 2]}
    cluster.look_at_brokers()
    told = [([topic.name for topic in one.topics], one.allow_auto_topic_creation) for one in asked()]
    assert told == [
        (["t"], False),
        (["old", "t"], True),
        (["denied", "old", "none", "t"], False),
        ([], False),
    ]
    assert cluster.all_topics() == {"t": [0, 1, 2], "old": [0]}
    assert asked()[-1].topics is None
    assert cluster.topic_ids == {"t": UUID(int=1)}
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: topic 'denied'"):
        cluster.partitions_of(["denied"])


def test_leaders_are_asked_for_where_they_are_not_known(cluster: BlockingCluster) -> None:
    places = [("t", 0), ("t", 1), ("old", 0), ("t", 2)]
    assert cluster.leaders_of(places) == {HERE: [places[0], places[2], places[3]], THERE: [places[1]]}
    assert [[topic.name for topic in one.topics] for one in asked()] == [["t"], ["old"]]
    assert cluster.leaders_of(places[:2]) == {HERE: places[:1], THERE: places[1:2]}
    assert len(asked()) == 2
    cluster.metadata = ClusterMetadata()
    assert cluster.leader_of("t", 1) == THERE
    cluster.forget_leader("t")
    cluster.forget_leader("t")
    assert cluster.leader_of("t", 2) == HERE
    assert [[topic.name for topic in one.topics] for one in asked()[2:]] == [["t"], ["t"]]


def test_what_leads_to_addresses_that_are_gone_is_closed_but_where_an_answer_is_to_come(
    cluster: BlockingCluster,
) -> None:
    before, gone = Address("before", 4), Address("gone", 5)
    shared = {at: fake(cluster.connection(at)) for at in (HOME, HERE, before, gone)}
    for at in (HOME, THERE, before):
        cluster.give_back(at, cluster.own_connection(at))
    spare = {at: fake(one) for at, one in cluster._spare.items()}
    shared[gone].is_idle = False
    cluster.look_at_brokers()
    assert [at for at, one in shared.items() if one.is_closed] == [before]
    assert [at for at, one in spare.items() if one.is_closed] == [before]
    assert (list(cluster._connections), list(cluster._spare)) == ([HOME, HERE, gone], [HOME, THERE])


def test_coordinators_are_known_by_what_they_coordinate(cluster: BlockingCluster) -> None:
    for key, kind in (("g", 0), ("g", 1), ("g", 0), ("h", 0), ("g", 1)):
        assert fake(cluster.coordinator_of(key, kind)).address == HERE
    assert [(one.key, one.key_type) for one in asked()] == [("g", 0), ("g", 1), ("h", 0)]
    cluster.forget_everything()
    assert all(one.is_closed for one in Fake.made)
    cluster.coordinator_of("g")
    assert len(asked()) == 4


# -- how long ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was_reached", "asked_ms", "limit_ms"),
    [(False, None, 5_000), (True, None, 60_000), (True, 700, 700), (False, 700, 700), (False, 9_000, 5_000)],
)
def test_it_is_tried_until_the_shortest_limit_is_over(
    monkeypatch: pytest.MonkeyPatch, cluster: BlockingCluster, asked_ms: int | None, limit_ms: int, *, was_reached: bool
) -> None:
    tries: list[int] = []
    clock = SimpleNamespace(ns=7_000_000)
    monkeypatch.setattr(blocking, "time", stand_in(time, monotonic_ns=lambda: clock.ns, sleep=lambda _: None))
    cluster._was_reached = was_reached
    cluster.connection(HERE)

    def attempt() -> None:
        tries.append(clock.ns // 1_000_000 - 7)
        clock.ns += limit_ms * 1_000_000 if len(tries) == 1 else 1_000_000
        raise OSError("gone")

    cluster._was_reached = was_reached
    with pytest.raises(OSError, match="gone"):
        cluster.retried(attempt, asked_ms)
    assert tries == [0, limit_ms]
    assert cluster._connections == {}, "all is learned anew"


@pytest.mark.parametrize("may_create", [False, True])
def test_a_topic_that_may_be_created_is_waited_for_so_long(
    monkeypatch: pytest.MonkeyPatch, cluster: BlockingCluster, *, may_create: bool
) -> None:
    clock = SimpleNamespace(ns=0)

    def sleep(pause_s: float) -> None:
        clock.ns += round(pause_s * 1e9)

    monkeypatch.setattr(blocking, "time", stand_in(time, monotonic_ns=lambda: clock.ns, sleep=sleep))
    with pytest.raises(UnknownTopicError) as raised:
        cluster.partitions_of(["none"], may_create=may_create)
    assert raised.value.is_final != may_create
    assert str(raised.value) == "The cluster at home:1 has no topic 'none'."
    assert clock.ns == (10_550_000_000 if may_create else 0), "the first look after ten seconds is the last"


def test_which_failures_pass() -> None:
    for code in ErrorCode:
        assert may_succeed_later(KafkaError(code)) == KafkaError(code).retriable
    for is_final in (False, True):
        assert may_succeed_later(UnknownTopicError("t", "c", is_final=is_final)) != is_final


def test_a_failure_is_told_in_the_systems_words() -> None:
    assert reason_of(OSError(errno.ECONNREFUSED, "refused")) == "refused"
    assert reason_of(OSError("said so")) == "said so"
    assert reason_of(TimeoutError()) == "TimeoutError"
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLError) as over_tls:
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="h").do_handshake()
    assert reason_of(over_tls.value) == fault_of(over_tls.value)
    assert fault_of(over_tls.value) != over_tls.value.strerror


def test_the_clock_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "time", SimpleNamespace(monotonic_ns=lambda: 5_999_999))
    assert now_ms() == 5
