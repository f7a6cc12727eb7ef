"""What a node does with the parts that it has, and only with those: each condition alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.listeners import Listener
from penstock.node.assembly import quorum_start
from penstock.node.assembly.protection import UnprotectedError
from penstock.node.assembly.quorum_start import QuorumParts
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.serving.server import BACKLOG
from penstock.protocol.uuids import ZERO_UUID
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

CONTROLLER = {"listeners": "A://h:1,C://h:2", "controller.listener.names": "C", "inter.broker.listener.name": "A"}
PROTOCOLS = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"}
BOTH = "A://h:1,B://h:3,C://h:2"


def config(**settings: str) -> BrokerConfig:
    """Of a node that is a broker and a controller among those which it names, or else of a single node."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.embedded((CONTROLLER | PROTOCOLS if settings else {}) | named)


VOTERS, BOOTSTRAP = {"controller_quorum_voters": "1@h:2"}, {"controller_quorum_bootstrap_servers": "b:7"}


class Parts:
    """Some parts of a node, and what they did."""

    def __init__(self, *there: str) -> None:
        self.did: list[str] = []
        self.it: Any = QuorumParts.__new__(QuorumParts)
        self.it.failed = asyncio.get_running_loop().create_future()
        self.it.log, self.it.quorum, self.it.channel = (self.part(name) for name in ("log", "quorum", "channel"))
        for name in ("_audit_topic", "_policed", "_server", "_opening", "_probes", "_registration", "controller"):
            setattr(self.it, name, self.part(name) if name in there else None)
        for name in ("tls", "sasl"):
            if name in there:
                vars(self.it)[name] = self.part(name)

    def part(self, name: str) -> Any:
        def does(what: str) -> Callable[[], None]:
            return lambda: self.did.append(f"{what} {name}")

        async def stop() -> None:
            self.did.append(f"stop {name}")

        return SimpleNamespace(
            stop=stop, close=stop, cancel=does("stop"), resign=does("resign"), refresh_soon=does("refresh")
        )


ALWAYS = ["channel", "quorum", "log"]
ALL = [
    "_registration",
    "_probes",
    "channel",
    "quorum",
    "_opening",
    "_server",
    "_policed",
    "sasl",
    "tls",
    "_audit_topic",
]


@pytest.mark.parametrize("name", ["", *(it for it in ALL if it not in ALWAYS)])
async def test_each_part_that_is_there_is_stopped(name: str) -> None:
    parts = Parts(name)
    await parts.it.stop()
    assert sorted(parts.did) == sorted(f"stop {it}" for it in [*ALWAYS, name] if it)


async def test_a_controller_gives_up_its_lead_before_its_parts_are_stopped_the_last_one_first() -> None:
    parts = Parts("controller", *ALL)
    await parts.it.stop()
    first = ["stop _opening", "stop _registration", "resign controller"]
    rest = [f"stop {it}" for it in ALL if f"stop {it}" not in first]
    assert parts.did == [*first, *rest, "stop log"]


@pytest.mark.parametrize(("there", "did"), [((), []), (("controller",), ["resign controller", "resign log"])])
async def test_a_node_that_fails_leads_no_longer_and_says_why_it_failed_first(
    there: tuple[str, ...], did: list[str]
) -> None:
    parts, first = Parts(*there), OSError("first")
    parts.it.fail(first)
    assert parts.did == did[:1], "the log may be what tells of it, so it hears of it later"
    await asyncio.sleep(0)
    assert (parts.did, parts.it.failed.result()) == (did, first)
    parts.it.fail(OSError("second"))
    assert parts.it.failed.result() is first


async def test_it_is_unprotected_where_it_failed_for_that() -> None:
    parts = Parts()
    assert not parts.it.is_unprotected
    parts.it.failed.set_result(OSError("another"))
    assert not parts.it.is_unprotected
    other = Parts()
    other.it.failed.set_result(UnprotectedError("the file asks", ["a"]))
    assert other.it.is_unprotected


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (None, "None"),
        (OSError("taken"), "OSError('taken')"),
        (asyncio.CancelledError(), "None"),
    ],
)
async def test_a_listener_that_cannot_open_ends_the_node(error: BaseException | None, failed: str) -> None:
    async def listen(listeners: object) -> None:
        opened.append(listeners)
        if error is not None:
            raise error

    parts, opened = Parts(), list[object]()
    parts.it._open(cast("Any", SimpleNamespace(listen=listen)), ["late"])
    while not parts.it._opening.done():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert opened == [["late"]]
    assert repr(parts.it.failed.result() if parts.it.failed.done() else None) == failed


@pytest.mark.parametrize(
    ("error", "failed"), [(OSError("a"), "OSError('a')"), (GeneratorExit("b"), "RuntimeError('b')")]
)
async def test_what_is_no_usual_error_is_told_as_one(error: BaseException, failed: str) -> None:
    parts = Parts()
    parts.it._opened(cast("Any", SimpleNamespace(cancelled=lambda: False, exception=lambda: error)))
    assert repr(parts.it.failed.result()) == failed


@pytest.mark.parametrize(
    ("voters", "level", "ignores"),
    [
        (VOTERS, DYNAMIC_VOTERS, True),
        (VOTERS, DYNAMIC_VOTERS + 1, True),
        (VOTERS, STATIC_VOTERS, False),
        (BOOTSTRAP, DYNAMIC_VOTERS, False),
        ({}, DYNAMIC_VOTERS, False),
    ],
)
async def test_voters_of_the_file_count_for_nothing_where_the_log_names_them(
    voters: dict[str, str], level: int, ignores: bool
) -> None:
    parts = Parts()
    parts.it.context = SimpleNamespace(config=config(**voters))
    parts.it.quorum.quorum = Quorum(kraft_version=level)
    assert parts.it._ignores_voters is ignores
    gauge = parts.it._ignored_voters()
    assert (gauge.name, gauge.read()) == ("ignored-static-voters", int(ignores))


@pytest.mark.parametrize(
    ("protocol", "accepts"),
    [
        ("PLAINTEXT", "plain"),
        ("SSL", "plain over TLS"),
        ("SASL_PLAINTEXT", "log-in"),
        ("SASL_SSL", "log-in over TLS"),
    ],
)
async def test_how_connections_of_a_listener_are_taken(protocol: str, accepts: str) -> None:
    parts = Parts()
    log_in = SimpleNamespace(accept=lambda connections: "log-in")
    vars(parts.it)["sasl"] = SimpleNamespace(on=lambda endpoint: log_in)
    vars(parts.it)["tls"] = SimpleNamespace(over=lambda endpoint, accept, connections: lambda: f"{accept()} over TLS")
    endpoint: Any = SimpleNamespace(security_protocol=protocol)
    accept: Any = parts.it.secured(cast("Any", "connections"))(endpoint, lambda: "plain")
    assert accept() == accepts


async def test_keys_are_read_again_where_there_are_any() -> None:
    parts = Parts()
    parts.it.reload()
    assert parts.did == []
    keyed = Parts("tls")
    keyed.it.reload()
    assert keyed.did == ["refresh tls"]


LOCAL = Voter(ReplicaKey(1, ZERO_UUID), (Endpoint("C", "h", 2),))
ALONE = Voter(ReplicaKey(1, ZERO_UUID), ())


@pytest.mark.parametrize(
    ("settings", "local", "has"),
    [
        ({}, ALONE, False),
        ({}, LOCAL, True),
        (VOTERS, ALONE, True),
        (BOOTSTRAP, ALONE, True),
    ],
)
async def test_who_needs_a_way_to_others(settings: dict[str, str], local: Voter, has: bool) -> None:
    parts = Parts()
    parts.it.context = SimpleNamespace(config=config(**settings))
    vars(parts.it)["links"] = SimpleNamespace(peers=lambda name, listeners: (name, listeners))
    found = parts.it._peers(local)
    name = "C" if settings else "CONTROLLER"
    assert found == (name, local.endpoints) if has else isinstance(found, NoPeers)


@pytest.mark.parametrize(
    ("settings", "configured"),
    [
        ({}, Quorum.of([Voter(ReplicaKey(1))], STATIC_VOTERS)),
        (BOOTSTRAP, Quorum()),
        (
            {"controller_quorum_voters": "1@h:2,3@i:4"},
            Quorum(
                (
                    Voter(ReplicaKey(1), (Endpoint("C", "h", 2),)),
                    Voter(ReplicaKey(3), (Endpoint("C", "i", 4),)),
                ),
                STATIC_VOTERS,
            ),
        ),
    ],
)
def test_whom_the_file_names_as_voters(settings: dict[str, str], configured: Quorum) -> None:
    assert quorum_start._configured(config(**settings), LOCAL) == configured


@pytest.mark.parametrize(("names", "name"), [(("C", "D"), "C"), ((), "CONTROLLER")])
def test_the_first_listener_of_controllers_counts(names: tuple[str, ...], name: str) -> None:
    assert quorum_start._listener_name(cast("Any", SimpleNamespace(controller_listener_names=names))) == name


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({}, (-1, -1, BACKLOG)),
        ({"socket_send_buffer_bytes": "11"}, (11, -1, BACKLOG)),
        ({"socket_receive_buffer_bytes": "12"}, (-1, 12, BACKLOG)),
        ({"socket_listen_backlog_size": "13"}, (-1, -1, 13)),
    ],
)
def test_sizes_of_sockets_hold_where_the_file_sets_them(settings: dict[str, str], sizes: tuple[int, int, int]) -> None:
    environment: Any = SimpleNamespace(bind=lambda endpoint, **sizes: (endpoint, sizes))
    bound: Any = quorum_start.bind_listener(config(**VOTERS, **settings), environment, Listener("A", "h", 1, "SSL"))
    endpoint, found = bound
    assert (endpoint.listener, endpoint.host, endpoint.port, endpoint.security_protocol) == ("A", "h", 1, "SSL")
    assert (found["send_buffer_bytes"], found["receive_buffer_bytes"], found["backlog"]) == sizes


@pytest.mark.parametrize(("listeners", "protected"), [(CONTROLLER["listeners"], None), (BOTH, "A")])
def test_the_listener_of_brokers_is_protected_where_clients_have_another(listeners: str, protected: str | None) -> None:
    own = {"listener_name_a_max_connections": "21", "listener_name_c_max_connection_creation_rate": "22"}
    found = quorum_start.connection_limits(config(**VOTERS, listeners=listeners, **own))
    assert (found.protected_listener, found.max_connections_of, found.creation_rate_of) == (
        protected,
        {"A": 21},
        {"C": 22},
    )


@pytest.mark.parametrize("secret", [None, "s3cret"])
def test_there_are_tokens_where_there_is_a_secret(secret: str | None) -> None:
    times = {
        "delegation_token_expiry_time_ms": "1001",
        "delegation_token_max_lifetime_ms": "1002",
        "delegation_token_expiry_check_interval_ms": "1003",
    }
    of_secret = {} if secret is None else {"delegation_token_secret_key": secret}
    tokens = quorum_start.controller_settings(config(**VOTERS, **times, **of_secret)).tokens
    assert (tokens is None) is (secret is None)
    if tokens is not None:
        assert tuple(getattr(tokens, name) for name in tokens.__fields__)[1:] == (1001, 1002, 1003)


def test_the_metadata_log_keeps_everything() -> None:
    found = quorum_start.metadata_log_config(config(**VOTERS, metadata_log_segment_bytes="8388608"))
    assert (found.segment_bytes, found.retention_ms, found.cleanup_policy) == (8_388_608, -1, frozenset())


POLICIES = ("penstock_policy_file", "create_topic_policy_class_name", "alter_config_policy_class_name")


@pytest.mark.parametrize("named", ["", *POLICIES])
@pytest.mark.parametrize("is_controller", [True, False])
def test_policies_are_those_of_a_controller_that_names_one(
    monkeypatch: pytest.MonkeyPatch, named: str, is_controller: bool
) -> None:
    monkeypatch.setattr("penstock.node.controlling.policies.load_judges", lambda _: ("judge",))
    it = SimpleNamespace(is_controller=is_controller, **{name: "x" if name == named else None for name in POLICIES})
    assert quorum_start.judges_of(cast("Any", it)) == (("judge",) if named and is_controller else ())


class Started:
    """Starts parts whose listeners A, B and C may be of a controller."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], *, has_node: bool = True) -> None:
        self.opened: list[str] = []
        self.late: list[Callable[[], None]] = []
        monkeypatch.setattr(quorum_start, "Dispatcher", lambda *_: None)
        monkeypatch.setattr(quorum_start, "Connections", lambda *_: None)
        monkeypatch.setattr(quorum_start, "Server", lambda *_: SimpleNamespace(listen=self.listen))
        self.parts = Parts()
        it = self.it = self.parts.it
        it.controller_node = object() if has_node else None
        it.context = SimpleNamespace(
            config=config(**VOTERS, listeners=BOTH, controller_listener_names="B,C", **settings),
            environment=SimpleNamespace(clock_ns=None),
            counts=None,
        )
        it._listeners = [SimpleNamespace(endpoint=SimpleNamespace(listener=name)) for name in "BC"]
        it.log.start = self.start
        it.quorum.quorum = Quorum()
        it.watch = SimpleNamespace(when_begun=self.late.append)
        it._registration = SimpleNamespace(start=lambda: self.opened.append("registers"))

    async def start(self, quorum: object) -> None:
        self.opened.append("log")

    async def listen(self, listeners: list[Any]) -> None:
        self.opened.append("".join(it.endpoint.listener for it in listeners))


RULES = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.parametrize(
    ("settings", "early", "late"),
    [
        ({}, "BC", None),
        ({"early_start_listeners": "B"}, "BC", None),
        (RULES, "BC", None),
        (RULES | {"early_start_listeners": "B"}, "B", "C"),
    ],
)
async def test_listeners_open_before_the_access_rules_are_here_or_behind(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], early: str, late: str | None
) -> None:
    started = Started(monkeypatch, settings)
    await started.it.start()
    assert started.opened == ["log", early, "registers"]
    assert len(started.late) == (late is not None)
    for begin in started.late:
        begin()
        await started.it._opening
        assert started.opened[3:] == [late]


@pytest.mark.parametrize("lacks", ["node", "listeners"])
async def test_who_serves_no_controllers_opens_nothing(monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    started = Started(monkeypatch, {}, has_node=lacks != "node")
    if lacks == "listeners":
        started.it._listeners = []
    await started.it.start()
    assert (started.opened, started.it._server) == (["log", "registers"], None)
