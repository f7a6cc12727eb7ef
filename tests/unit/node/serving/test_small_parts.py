"""What is small in serving, exactly: words of refusals, what is kept of a frame, rates and addresses, who asks."""

from __future__ import annotations

import json
import mmap
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.image import Endpoint as AdvertisedEndpoint
from penstock.node.serving import advertise, refusals
from penstock.node.serving.access import ALL_ON, READ_TOPIC, audit_log, bits
from penstock.node.serving.advertise import advertised_endpoints
from penstock.node.serving.audit import IN_WATCH_MODE, Audit
from penstock.node.serving.creation_rates import CreationRates, Rates
from penstock.node.serving.frames import MAX_POOLED_BUFFERS, POOLED_FRAME_BYTES, FrameBuffers, Mapping, kept
from penstock.node.serving.parts import LONG, let_go, long_arrays
from penstock.node.serving.refusals import QUIET_S, Repeats, no_length
from penstock.node.serving.server import Endpoint
from penstock.node.serving.session import ANONYMOUS, NODE, Principal, Session
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.requests.api import ApiKey

TLS = "the client speaks TLS"
HTTP = "the client speaks HTTP"
SIZE = "a frame of "


@pytest.mark.parametrize(
    ("first", "words"),
    [
        *((bytes.fromhex(text), TLS) for text in ("16030100", "160301ff")),
        *((bytes.fromhex(text), SIZE) for text in ("16030200", "16030000", "00160301")),
        *((text, HTTP) for text in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN")),
        *((text, SIZE) for text in (b"GETS", b"PUSH", b"\xff\xff\xff\xff")),
    ],
)
def test_what_stands_where_a_length_is_due(first: bytes, words: str) -> None:
    size = int.from_bytes(first, "big", signed=True)
    assert no_length(size, 9, "k").startswith(words)
    assert no_length(-5, 9, "k") == "a frame of -5 bytes; k is 9"


def test_causes_have_their_places_and_their_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "MAX_CAUSES", 2)
    gone: list[tuple[str, int]] = []
    repeats = Repeats[str](lambda cause, untold: gone.append((cause, untold)))
    assert [repeats.take(cause, 0.0) for cause in ("a", "a", "b", "a")] == [0, None, 0, None]
    assert (repeats.take("a", QUIET_S - 1), repeats.take("a", QUIET_S), len(repeats)) == (None, 3, 2)
    assert repeats.take("c", QUIET_S) == 0
    assert gone == [("b", 0)], "a was told after it"
    assert repeats.take("c", QUIET_S + 1) is None
    repeats.forget_old(2 * QUIET_S - 1)
    assert (len(repeats), gone) == (2, [("b", 0)])
    repeats.forget_old(2 * QUIET_S)
    assert (len(repeats), gone) == (0, [("b", 0), ("a", 0), ("c", 1)])


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("watches", [False, True])
def test_a_line_says_whether_it_was_refused(caplog: pytest.LogCaptureFixture, as_json: bool, watches: bool) -> None:
    caplog.set_level("DEBUG", audit_log.name)
    rule = AclBinding(Resource.TOPIC, "t", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)
    rules = AccessRules()
    rules.add(UUID(int=1), rule)
    audit = Audit(rules, lambda: 0.0, lambda *_: None, as_json=as_json, watches=watches)
    ada = Session("h", 1, "L", 1, Principal("User", "ada"))
    audit.allowed(ada, READ_TOPIC, "t", ApiKey.FETCH)
    audit.denied(ada, READ_TOPIC, None, ApiKey.FETCH, is_let_through=watches)
    allowed, denied = (record.getMessage() for record in caplog.records)
    if as_json:
        found = [json.loads(line) for line in (allowed, denied)]
        assert [(one["verdict"], one["refused"]) for one in found] == [("Allowed", False), ("Denied", not watches)]
        assert (found[0]["rule"]["principal"], found[1]["rule"]) == ("User:ada", "DefaultDeny")
        assert (found[0]["resourceName"], found[1]["resourceName"], found[0]["times"]) == ("t", None, 1)
    else:
        assert "is Allowed" in allowed
        assert "is Denied" in denied
        assert (denied.endswith(IN_WATCH_MODE), allowed.endswith(IN_WATCH_MODE)) == (watches, False)


def test_operations_are_bits() -> None:
    assert bits([Operation.READ, Operation.DESCRIBE]) == (1 << 3) + (1 << 8)
    assert bits([]) == 0
    assert {resource.name: number for resource, number in ALL_ON.items()} == {
        "TOPIC": 3576,
        "GROUP": 3400,
        "CLUSTER": 8096,
        "TRANSACTIONAL_ID": 33040,
        "DELEGATION_TOKEN": 256,
        "USER": 24576,
    }


async def test_what_is_kept_of_a_frame() -> None:
    buffers = FrameBuffers(1 << 30)
    pooled, huge = buffers.take(POOLED_FRAME_BYTES), buffers.take(POOLED_FRAME_BYTES + 1)
    assert isinstance(huge.obj, mmap.mmap)
    assert isinstance(pooled.obj, bytearray)
    assert kept(huge) is huge
    copied = kept(pooled[:5])
    assert type(copied) is bytes
    del huge


@pytest.mark.parametrize(
    ("asked", "gets"),
    [
        (1, 1),
        (65_535, 65_535),
        (65_536, 65_536),
        (65_537, 131_072),
        (131_072, 131_072),
        (2_097_151, 2_097_152),
        (2_097_152, 2_097_152),
    ],
)
def test_how_much_a_frame_gets(asked: int, gets: int) -> None:
    buffers = FrameBuffers(1 << 30)
    buffer = buffers.take(asked)
    assert len(buffer) == gets
    buffers.give(buffer)
    assert (buffers.take(asked) is buffer) is (asked >= 65_536)


def test_the_first_buffer_that_is_large_enough_is_lent_again() -> None:
    buffers = FrameBuffers(1 << 30)
    small, large = buffers.take(65_536), buffers.take(200_000)
    for buffer in (small, large, buffers.take(65_536)):
        buffers.give(buffer)
    assert len(buffers._spare) == MAX_POOLED_BUFFERS == 2
    assert buffers.take(65_537) is large
    assert buffers.take(65_536) is small
    assert buffers._spare == []


async def test_a_mapping_has_the_size_that_was_asked_for() -> None:
    mapping = Mapping(3_000_000)
    assert len(mapping) == 3_000_000
    mapping._loop = None


def test_long_arrays_are_found_however_deep() -> None:
    short = CreatableTopic(name="s", configs=[])
    long = CreatableTopic(name="l", assignments=cast("Any", [SimpleNamespace()] * (LONG + 1)))
    request = CreateTopicsRequest(topics=[short, long])
    found = long_arrays(request)
    assert found == [long.assignments]
    assert found[0] is not long.assignments
    many = CreateTopicsRequest(topics=[short] * LONG)
    assert long_arrays(many) == []
    more = CreateTopicsRequest(topics=[*many.topics, long])
    assert [len(array) for array in long_arrays(more)] == [LONG + 1, LONG + 1]
    assert long_arrays("no message") == []
    arrays = [[1] * (2 * LONG + 1), [2]]
    both = list(arrays)
    let_go(arrays)
    assert (arrays, both) == ([], [[], []])


NOW_MS = 1_000


def rates(of_node: int, protected: str | None = None, **of_listeners: int) -> CreationRates:
    return CreationRates(Rates(of_node, of_listeners, protected, 1.0), NOW_MS)


def test_a_connection_waits_for_the_slower_of_two_rates() -> None:
    it = rates(10, A=2, B=100)
    assert [it.delay_ms("A", NOW_MS) for _ in range(4)] == [0, 0, 500, 1_000]
    assert [it.delay_ms("B", NOW_MS) for _ in range(8)] == [0, 0, 0, 0, 0, 0, 100, 200]
    assert it.delay_ms("C", NOW_MS) == 300
    it.give_back("A")
    assert it.delay_ms("A", NOW_MS) == 1_000
    it.give_back("C")
    assert it.delay_ms("C", NOW_MS) == 300
    assert it.delay_ms("C", NOW_MS + 1_000) == 0


def test_the_listener_of_nodes_waits_for_its_own_rate_and_counts_for_all() -> None:
    it = rates(1, "P", P=3)
    assert [it.delay_ms("P", NOW_MS) for _ in range(4)] == [0, 0, 0, 334]
    assert it.delay_ms("A", NOW_MS) == 4_000
    assert [rates(0).delay_ms("A", NOW_MS), rates(-1, A=0).delay_ms("A", NOW_MS)] == [0, 0], "one a second at least"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_what_is_advertised(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(advertise, "socket", SimpleNamespace(getfqdn=lambda: "me"))
    wanted = [Listener("A", host, 5, "SASL_SSL"), Listener("B", "b", 0, "SSL"), Listener("C", "c", 7, "SASL_PLAINTEXT")]
    found = advertised_endpoints(wanted, [Endpoint("B", "::", 99), Endpoint("C", "::", 98)])
    assert found == [
        AdvertisedEndpoint("A", "me", 5, 3),
        AdvertisedEndpoint("B", "b", 99, 1),
        AdvertisedEndpoint("C", "c", 7, 2),
    ]
    assert advertised_endpoints([Listener("D", "d", 1)], []) == [AdvertisedEndpoint("D", "d", 1, 0)]


ADA = Principal("User", "ada")


@pytest.mark.parametrize(
    ("session", "asker", "has_to_log_in"),
    [
        (Session("h", 1, "L", 2), "", False),
        (Session("h", 1, "L", 2, ADA), "User:ada", False),
        (Session("h", 1, "L", 2, ADA.replace(by_token=True)), "", False),
        (Session("h", 1, "L", 2, NODE), "", False),
        (Session("h", 1, "L", 2, ANONYMOUS, "SASL_SSL"), "", True),
        (Session("h", 1, "L", 2, ADA, "SASL_PLAINTEXT", "PLAIN"), "User:ada", False),
        (Session("h", 1, "L", 2, ANONYMOUS, "SSL"), "", False),
    ],
)
def test_who_asks(session: Session, asker: str, has_to_log_in: bool) -> None:
    assert (session.asker, session.has_to_log_in) == (asker, has_to_log_in)
    assert str(session) == "h:1 (connection 2, listener L)"
