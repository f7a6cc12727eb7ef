"""How a node reaches others, key by key of its file; and when it looks at what the metadata ask for."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.contexts import node_context

from penstock.client.errors import ClusterUnreachableError
from penstock.client.producer import Producer
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    ConfigRecord,
    NodeEndpoint,
    NoOpRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.resources import ResourceType
from penstock.node.api.commands import OF_NODES
from penstock.node.assembly import links, protection
from penstock.node.assembly.links import Links
from penstock.node.assembly.protection import Watch
from penstock.node.controlling.probes import ProbeSettings
from penstock.protocol.address import Address
from penstock.protocol.schema import Message

FILE = {
    "node.id": "7",
    "controller.quorum.voters": "7@c:9093",
    "listeners": "PLAINTEXT://h:9092,IN://h:9094,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "IN",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.request.timeout.ms": "11",
    "request.timeout.ms": "12",
    "replica.socket.timeout.ms": "30013",
    "broker.session.refused.timeout.ms": "15",
}
BROKERS = (
    RegisterBrokerRecord(
        broker_id=3,
        end_points=[NodeEndpoint(name="PLAINTEXT", host="p", port=1), NodeEndpoint(name="IN", host="i", port=2)],
    ),
    RegisterBrokerRecord(broker_id=4, end_points=[NodeEndpoint(name="PLAINTEXT", host="q", port=3)]),
)


def links_of(**changes: str) -> Links:
    config = BrokerConfig.embedded(FILE | {key.replace("_", "."): value for key, value in changes.items()})
    image = ClusterImage("some-cluster")
    for record in BROKERS:
        image.apply(record)
    secured = SimpleNamespace(
        sasl=SimpleNamespace(credentials_at=lambda listener: f"as whom on {listener}"),
        tls=SimpleNamespace(asking=lambda listener, credentials: (listener, credentials)),
    )
    return Links(node_context(config, image, SimpleNamespace(cluster_id="on disk")), cast("Any", secured))


def test_seams_of_all_connections() -> None:
    found = links_of()._seams(5, "IN")
    assert found["client_id"] == "penstock-7"
    assert {key: value for key, value in found.items() if key.endswith("_ms") and key != "now_ms"} == {
        "request_timeout_ms": 5,
        "socket_connection_setup_timeout_ms": 11,
        "retry_backoff_ms": 50,
        "retry_backoff_max_ms": 500,
        "connections_max_idle_ms": -1,
    }
    assert links_of()._seams(0, "IN")["request_timeout_ms"] == 1
    least = links_of(controller_quorum_request_timeout_ms="0")._seams(9, "IN")
    assert least["socket_connection_setup_timeout_ms"] == 1


@pytest.mark.parametrize(
    ("protocol", "credentials", "by_tls"),
    [
        ("PLAINTEXT", None, False),
        ("SSL", None, True),
        ("SASL_PLAINTEXT", "as whom on IN", False),
        ("SASL_SSL", "as whom on IN", True),
    ],
)
def test_how_a_connection_is_secured(protocol: str, credentials: str | None, by_tls: bool) -> None:
    found: Any = links_of()._security("IN", protocol)
    assert found == ("IN", credentials) if by_tls else found._credentials == credentials


@pytest.mark.parametrize(("broker_id", "address"), [(3, Address("i", 2)), (4, None), (5, None)])
async def test_a_broker_is_where_it_listens_for_brokers(
    monkeypatch: pytest.MonkeyPatch, broker_id: int, address: Address | None
) -> None:
    asked: list[Any] = []

    async def connect(*of: Any) -> str:
        asked.append(of)
        return "connection"

    monkeypatch.setattr(links, "connect", connect)
    it = links_of()
    assert it._address_of(broker_id) == address
    listens_at = it.to_storage_groups()
    assert listens_at is not None
    if address is None:
        with pytest.raises(ClusterUnreachableError, match=f"do not say where broker {broker_id} listens"):
            await it.to_broker(broker_id)
        return
    assert cast("Any", await it.to_broker(broker_id)) == "connection"
    ((place, settings, known),) = asked
    assert (place, settings.request_timeout_ms) == (address, 12)
    assert (known.cluster_id, known.node_id) == ("some-cluster", broker_id)


@pytest.mark.parametrize(
    ("patience_ms", "loss", "has"),
    [("15", "serve", True), ("0", "serve", True), ("-1", "serve", False), ("15", "refuse", False)],
)
def test_where_processes_are_asked_whether_they_live(
    monkeypatch: pytest.MonkeyPatch, patience_ms: str, loss: str, has: bool
) -> None:
    monkeypatch.setattr(links, "Probes", lambda *of: of)
    it = links_of(broker_session_refused_timeout_ms=patience_ms, leader_lease_on_quorum_loss=loss)
    found: Any = it.probes(cast("Any", "sessions"), cast("Any", "log"), lambda: 5)
    assert (found is not None) is has
    if has:
        assert found[:3] == (ProbeSettings(7, "IN", int(patience_ms)), "sessions", "log")


@pytest.mark.parametrize(
    ("request_ms", "session_ms", "own_ms"), [("12", "9000", 12), ("30000", "9000", 4500), ("30000", "1", 1)]
)
def test_how_long_a_controller_has_for_what_a_node_says_itself(
    monkeypatch: pytest.MonkeyPatch, request_ms: str, session_ms: str, own_ms: int
) -> None:
    monkeypatch.setattr(links, "RemoteController", lambda *of: of)
    it = links_of(request_timeout_ms=request_ms, broker_session_timeout_ms=session_ms, broker_heartbeat_interval_ms="1")
    settings, own_timeout_ms, of_nodes = cast("Any", it.remote_controller())
    assert (settings.request_timeout_ms, own_timeout_ms, of_nodes) == (int(request_ms), own_ms, OF_NODES)


async def test_who_is_followed_has_its_own_time() -> None:
    fetcher: Any = links_of().replica_fetcher(3, cast("Any", "lease"))
    follower = fetcher._follower
    assert (follower.node_id, follower.cluster_id, follower.lease) == (7, "some-cluster", "lease")
    assert (follower.settings.request_timeout_ms, follower.address_of(3)) == (30_013, Address("i", 2))


def test_the_place_of_a_node_in_its_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "Peers", lambda *of: of)
    settings, place = cast("Any", links_of().peers("CONTROLLER", []))
    assert (settings.request_timeout_ms, place.cluster_id, place.node_id) == (11, "on disk", 7)
    assert (place.listener_name, place.listeners, place.bootstrap) == ("CONTROLLER", (), ())


async def test_a_producer_for_a_topic() -> None:
    it = links_of()
    made: Any = it.producer()
    assert isinstance(made, Producer)
    settings = made._settings
    assert (settings.linger_ms, settings.delivery_timeout_ms, settings.max_block_ms) == (0, 12, 5_000)
    assert settings.allow_auto_create_topics is False
    it._context.image.brokers.clear()
    assert it.producer() is None


class Watched:
    """A watch, what it was told to call, and how often it looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.image = ClusterImage()
        self.asked: list[str] = []
        self.looks = 0
        self.failed: list[Exception] = []
        monkeypatch.setattr(protection, "asked_by_metadata", self.look)
        log = SimpleNamespace(
            image=self.image,
            add_listener=lambda *_: None,
            add_leader_listener=lambda _: None,
            add_caught_up_listener=lambda _: None,
        )
        config = BrokerConfig.embedded({"node.id": "7", "penstock.security.ignored": "true"})
        self.it = Watch(cast("Any", log), config, self.failed.append)

    def look(self, image: object, config: object) -> list[str]:
        self.looks += 1
        return self.asked


@pytest.mark.parametrize(
    ("record", "looks"),
    [
        (ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="a"), True),
        (ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="a"), False),
        (TopicRecord(name="__cluster_metadata"), True),
        (TopicRecord(name="t"), False),
        (BROKERS[0], True),
        (NoOpRecord(), False),
        (RemoveTopicRecord(), False),
    ],
)
def test_which_records_it_looks_at(monkeypatch: pytest.MonkeyPatch, record: Message, looks: bool) -> None:
    watched = Watched(monkeypatch)
    watched.it._on_records([cast("Any", record)])
    assert watched.looks == 0, "it has not begun"
    watched.it.begin()
    watched.it._on_records([cast("Any", NoOpRecord()), cast("Any", record)])
    assert watched.looks == 1 + looks


def test_it_begins_once_this_node_knows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, begun = Watched(monkeypatch), list[str]()
    watched.it.when_begun(lambda: begun.append("first"))
    watched.it._on_leader(3, 1)
    watched.it._on_leader(None, 2)
    assert (begun, watched.it.has_begun) == ([], False)
    watched.it._on_leader(7, 3)
    assert (begun, watched.it.has_begun) == (["first"], True)
    watched.it.when_begun(lambda: begun.append("second"))
    watched.it.begin()
    assert begun == ["first", "second"], "each once"


def test_what_is_passed_over_is_said_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, protection.logger.name)
    watched = Watched(monkeypatch)
    for asked in ([], ["a"], ["a"], ["a", "b"], [], ["a"]):
        watched.asked = asked
        watched.it.begin()
    said = "the cluster's metadata have {}, and nothing acts on them yet"
    assert [record.getMessage() for record in caplog.records] == [said.format(it) for it in ("a", "a, b", "a")]
    caplog.clear()
    watched.asked = []
    for name in ("__cluster_metadata", "__cluster_metadata", "", "__cluster_metadata"):
        watched.image.topics.clear()
        watched.image.topics.update({name: cast("Any", None)} if name else {})
        watched.it.begin()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert watched.failed == []
