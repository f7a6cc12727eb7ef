"""What the parts of a node are told by its file, and what its metadata listener passes on, one thing at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.contexts import node_context

from penstock.leadership.lease import HELD
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, TopicRecord
from penstock.metadata.security import SecurityImage
from penstock.metadata.security_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from penstock.node.assembly import broker_start, monitoring
from penstock.node.assembly.dynamic_configs import AddedListeners
from penstock.node.assembly.sasl import NodeSasl, TokenLogins
from penstock.node.controlling.broker_lifecycle import LifecycleTimes
from penstock.node.metrics.counts import NodeCounts
from penstock.node.partitions.upkeep import UpkeepIntervals
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.sasl.jaas import PLAIN_MODULE
from penstock.protocol.sasl.plain import PlainServer
from penstock.protocol.sasl.scram import MECHANISMS, ScramCredential, ScramServer
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret

SHA_256 = MECHANISMS["SCRAM-SHA-256"]


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.embedded({key.replace("_", "."): value for key, value in settings.items()})


def test_times_are_those_of_the_file() -> None:
    found = config(
        broker_heartbeat_interval_ms="11",
        initial_broker_registration_timeout_ms="12",
        log_dir_failure_timeout_ms="13",
        log_retention_check_interval_ms="14",
        replica_high_watermark_checkpoint_interval_ms="15",
        log_flush_offset_checkpoint_interval_ms="16",
        log_flush_timeout_ms="1700",
    )
    assert broker_start._times(found) == LifecycleTimes(
        heartbeat_interval_ms=11, registration_timeout_ms=12, directory_failure_timeout_ms=13, votes=True
    )
    assert broker_start._intervals(found) == UpkeepIntervals(
        retention_check_ms=14, high_watermark_checkpoint_ms=15, recovery_point_checkpoint_ms=16, flush_timeout_ms=1700
    )


@pytest.mark.parametrize(("loss", "while_awake"), [("serve", True), ("refuse", False)])
def test_whether_a_lease_lasts_without_a_controller(loss: str, while_awake: bool) -> None:
    lease = broker_start._lease(
        node_context(config(leader_lease_on_quorum_loss=loss, broker_session_timeout_ms="7000"), ClusterImage())
    )
    assert (lease._awake is not None, lease.length_s) == (while_awake, 7 * HELD)


OTLP, METRICS = "penstock_otlp_endpoint", "penstock_metrics_listener"


@pytest.mark.parametrize(
    "settings", [{}, {OTLP: "http://c:1"}, {METRICS: ":9404"}, {OTLP: "http://c:1", METRICS: ":9404"}]
)
def test_metrics_of_clients_are_taken_where_they_are_told(settings: dict[str, str]) -> None:
    taken = broker_start._telemetry(node_context(config(telemetry_max_bytes="77", **settings), ClusterImage()))
    assert (taken is not None) is bool(settings)
    assert taken is None or taken.max_bytes == 77


@pytest.mark.parametrize("phases", ["true", "false"])
@pytest.mark.parametrize("telemetry", [None, object()])
def test_what_is_served(phases: str, telemetry: object | None) -> None:
    node = SimpleNamespace(config=config(transaction_two_phase_commit_enable=phases))
    handlers = broker_start._handlers(cast("Any", SimpleNamespace(node=node, telemetry=telemetry)))
    assert handlers[ApiKey.INIT_PRODUCER_ID].newest == (6 if phases == "true" else 5)
    of_telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert of_telemetry & handlers.keys() == (set() if telemetry is None else of_telemetry)


def test_times_of_requests_are_those_that_came() -> None:
    counts = NodeCounts()
    fetch = counts.api(ApiKey.FETCH, 12, splits=True)
    fetch.done(11, 1_000)
    produce = counts.api(ApiKey.PRODUCE, 12)
    produce.done(11, 5)
    counts.api(ApiKey.METADATA, 12)
    times = monitoring._request_times(counts)
    told = [(labels, found.count, found.total) for labels, found in times.samples()]
    assert told == [(("Produce",), 1, 5), (("FetchConsumer",), 1, 1_000), (("FetchFollower",), 0, 0)]


@pytest.mark.parametrize(
    ("hears", "told", "own", "offset", "has_caught_up"),
    [
        (True, 5, 3, 4, True),
        (True, 5, 3, 3, False),
        (True, 3, 5, 4, True),
        (True, 3, 5, 3, False),
        (False, 5, 3, 4, False),
        (True, 0, 0, 4, False),
        (True, 1, 0, 0, True),
        (True, 5, 3, 99, True),
    ],
)
def test_who_has_caught_up(hears: bool, told: int, own: int, offset: int, has_caught_up: bool) -> None:
    quorum = SimpleNamespace(told_high_watermark=told, high_watermark=own, hears_leader=hears)
    image = SimpleNamespace(offset=offset)
    parts = SimpleNamespace(quorum=quorum, context=SimpleNamespace(image=image))
    assert monitoring.Monitoring._has_caught_up(cast("Any", SimpleNamespace(_parts=parts))) is has_caught_up


class Looked:
    """A listener that notes whom it was to look at."""

    def __init__(self) -> None:
        self.looks: list[tuple[set[str] | None, set[str]]] = []

    def look(self, users: set[str] | None, tokens: set[str]) -> None:
        self.looks.append((users, tokens))


JAAS = f'{PLAIN_MODULE} required user_ada="hush";'


def node_sasl(image: ClusterImage, **settings: str) -> NodeSasl:
    log = SimpleNamespace(
        image=image,
        add_listener=lambda *_: None,
        add_caught_up_listener=lambda _: None,
        add_leader_listener=lambda _: None,
    )
    named = {"sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256", "listener_name_c_plain_sasl_jaas_config": JAAS}
    context = node_context(config(**named, **settings), image)
    return NodeSasl(context, cast("Any", log), SecurityImage(), lambda: True)


def scram(name: str, number: int = 1) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=number, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )


TOKEN = DelegationTokenRecord(token_id="t", owner="User:ada", max_timestamp=9, expiration_timestamp=9)


@pytest.mark.parametrize(
    ("records", "looks", "forgets"),
    [
        ([TopicRecord(name="t")], [], False),
        ([scram("ada"), TopicRecord(name="t")], [({"ada"}, set())], True),
        ([RemoveUserScramCredentialRecord(name="ada", mechanism=1), scram("bob")], [({"ada", "bob"}, set())], True),
        ([TOKEN], [(set(), {"t"})], False),
        ([RemoveDelegationTokenRecord(token_id="u"), scram("bob")], [({"bob"}, {"u"})], True),
        ([FeatureLevelRecord(name="metadata.version", feature_level=33), TOKEN], [(None, frozenset())], True),
    ],
)
def test_whose_sessions_are_looked_at(records: list[Message], looks: list[Any], forgets: bool) -> None:
    sasl, listener = node_sasl(ClusterImage()), Looked()
    sasl._listeners["C"] = cast("Any", listener)
    sasl._users._models["SCRAM-SHA-256"] = b"", ()
    sasl._on_records(cast("Any", records))
    assert listener.looks == looks
    assert (not sasl._users._models) is forgets


def test_which_machine_serves_a_mechanism_and_by_what_one_logs_in() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=33))
    image.apply(scram("bob"))
    image.apply(TOKEN)
    sasl = node_sasl(image, delegation_token_secret_key="s3cret")
    offered = sasl._mechanisms("C")
    assert (offered.names, offered.lifetimes_ms) == (("PLAIN", "SCRAM-SHA-256"), {"PLAIN": 0, "SCRAM-SHA-256": 0})
    assert isinstance(offered.serve("PLAIN"), PlainServer)
    assert isinstance(offered.serve("SCRAM-SHA-256"), ScramServer)
    bobs = ScramCredential(b"s", b"k", b"v", 4096)
    tokens = sasl._by_token.find(SHA_256, "t")
    assert tokens is not None
    for mechanism, user, token_id, proof in (
        ("PLAIN", "ada", None, Secret("hush")),
        ("PLAIN", "bob", None, None),
        ("SCRAM-SHA-256", "bob", None, bobs),
        ("SCRAM-SHA-256", "ada", None, None),
        ("SCRAM-SHA-256", "ada", "t", tokens.credential),
        ("SCRAM-SHA-256", "bob", "t", None),
        ("SCRAM-SHA-256", "ada", "u", None),
    ):
        assert offered.proof(mechanism, user, token_id) == proof, (mechanism, user, token_id)


@pytest.mark.parametrize(
    ("secret", "expires", "most", "owner", "now_ms", "left_ms"),
    [
        ("s", 9, 9, "User:ada", 8, 1),
        ("s", 9, 5, "User:ada", 1, 4),
        ("s", 5, 9, "User:ada", 1, 4),
        ("s", 9, 9, "User:ada", 9, None),
        ("s", 9, 9, "Group:ada", 1, None),
        (None, 9, 9, "User:ada", 1, None),
    ],
)
def test_how_long_a_token_holds(
    secret: str | None, expires: int, most: int, owner: str, now_ms: int, left_ms: int | None
) -> None:
    image = ClusterImage()
    image.apply(TOKEN.replace(owner=owner, expiration_timestamp=expires, max_timestamp=most))
    logins = TokenLogins(image, None if secret is None else Secret(secret), lambda: now_ms)
    found = logins.find(SHA_256, "t")
    assert (None if found is None else (found.owner, found.lifetime_ms)) == (
        None if left_ms is None else ("ada", left_ms)
    )
    assert logins.find(SHA_256, "u") is None


async def test_listeners_come_and_go_with_the_configuration() -> None:
    did: list[str] = []

    async def listen(listener: Listener) -> None:
        did.append(f"opens {listener}")
        it._open.append(listener)

    server = SimpleNamespace(close=lambda name: did.append(f"closes {name}"))
    it = AddedListeners(config(), cast("Any", None), cast("Any", server), lambda name: did.append(f"forgets {name}"))
    it._listen = listen  # type: ignore[method-assign]
    one, two, other = Listener("A", "h", 1), Listener("B", "h", 2), Listener("A", "h", 3)
    for wanted, done in (
        ((one, two), ["opens A://h:1", "opens B://h:2"]),
        ((one, two), []),
        ((other, two), ["closes A", "forgets A", "opens A://h:3"]),
        ((), ["closes B", "forgets B", "closes A", "forgets A"]),
    ):
        did.clear()
        await it._settle(wanted)
        assert (sorted(did), set(it._open)) == (sorted(done), set(wanted))
