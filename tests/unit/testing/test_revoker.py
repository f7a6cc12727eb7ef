"""Who takes rights away asks each broker for all that there is, and tells whoever answers too late."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.golden.shown import said
from tests.stand_in import stand_in

from penstock.client.errors import ConnectionFailedError
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.address import Address
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.uuids import ZERO_UUID
from penstock.testing.simulator import revoker
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import OTHERS
from penstock.testing.simulator.revoker import RevokingClient


class Security:
    def __init__(self, keys: dict[str, str]) -> None:
        self.keys = keys


class Brokers:
    """Answer with the error codes that they are told, one for each question."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.codes: list[list[int]] = []
        self.found: list[str] = []
        self.now_s = 0.0
        topics = {"t": 2, "gone": 1}
        image = SimpleNamespace(topics={"t": SimpleNamespace(topic_id=ZERO_UUID)})
        ledger = SimpleNamespace(
            agreement=SimpleNamespace(newest=image), topics=topics, violated=self.found.append, lossy_crashes=0
        )
        self.world = World(
            cast("Any", SimpleNamespace(now_ms=lambda: 0, time=lambda: self.now_s)),
            ["h1:1", "h2:2"],
            cast("Any", ledger),
            cast("Any", SimpleNamespace(note=lambda _, what: self.asked.append(what))),
            {"security": Security({})},
        )
        self.client = RevokingClient(self.world, "revoker", Random(1))
        self.closed = False
        self.closes = 0
        self.then: Any = lambda: None

    async def request(self, request: Any, answer: type) -> Any:
        self.asked.append(said(request))
        self.then()
        codes = self.codes.pop(0)
        if answer is FetchResponse:
            rows = [PartitionData(error_code=code) for code in codes]
            return FetchResponse(responses=[FetchableTopicResponse(partitions=rows)])
        ends = [ListOffsetsPartitionResponse(error_code=code) for code in codes]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=ends)])

    async def close(self) -> None:
        self.closes += 1
        self.closed = True


@pytest.mark.parametrize(
    ("revoked_s", "codes", "found"),
    [
        (None, [[0, 0], [0, 0]], []),
        (1.0, [[29, 29], [29, 29]], []),
        (1.0, [[0, 29], [29, 29]], ["where t ends, at h1:1"]),
        (1.0, [[29, 29], [29, 0]], ["what is in t, at h1:1"]),
        (0.0, [[0, 0], [0, 0]], ["where t ends, at h1:1", "what is in t, at h1:1"]),
    ],
)
async def test_who_answers_after_a_right_is_gone_is_told(
    revoked_s: float | None, codes: list[list[int]], found: list[str]
) -> None:
    brokers = Brokers()
    brokers.client._revoked_s, brokers.codes, brokers.now_s = revoked_s, codes, 1.5
    await brokers.client._ask(cast("Any", brokers), "h1:1", OTHERS[0])
    late = f"{1.5 - (revoked_s or 0.0):.3f}"
    assert brokers.found == [f"{what}, is told {late} s after the right was revoked" for what in found]
    assert brokers.asked == [
        "ListOffsetsRequest(topics=[(name=t, partitions=[(timestamp=-1), (partition_index=1, timestamp=-1)])])",
        "FetchRequest(max_wait_ms=100, topics=[(partitions=[(partition_max_bytes=10000),"
        " (partition=1, partition_max_bytes=10000)])])",
    ]


async def test_what_was_asked_before_the_right_was_gone_may_be_answered() -> None:
    brokers = Brokers()
    brokers.codes = [[0, 0], [29, 29]]

    def revoke() -> None:
        brokers.client._revoked_s = 1.0

    brokers.then = revoke
    await brokers.client._ask(cast("Any", brokers), "h1:1", OTHERS[0])
    assert brokers.found == []


@pytest.mark.parametrize("is_next", [True, False])
async def test_the_next_users_rights_are_no_matter_of_the_one_before(is_next: bool) -> None:
    """A question of a user whose turn is over is judged by when that one's rights had gone."""
    brokers = Brokers()
    brokers.client._revoked_s, brokers.codes = 1.0, [[29, 29], [0, 0]]

    def turn() -> None:
        if is_next:
            brokers.client._users.pop(0)
        brokers.client._revoked_s = None

    brokers.then = turn
    await brokers.client._ask(cast("Any", brokers), "h", OTHERS[0])
    assert len(brokers.found) == int(is_next)
    brokers.asked.clear()
    await brokers.client._ask(cast("Any", brokers), "h", "another")
    assert brokers.asked == []


async def test_rights_are_given_to_all_and_taken_one_by_one() -> None:
    brokers = Brokers()
    made: list[AclBinding] = []

    async def create(rules: list[AclBinding]) -> None:
        made.extend(rules)

    admin: Any = SimpleNamespace(acls=SimpleNamespace(create=create))
    seen = []
    while not brokers.client._has_enough:
        brokers.now_s += 1.0
        await brokers.client._act(admin)
        seen.append((len(brokers.client._users), brokers.client._revoked_s))
    count = len(OTHERS)
    assert seen == [(count, None)] + [
        one for n in range(count) for one in ((count - n, 2.0 + 2 * n), (count - n - 1, None))
    ]
    rule = AclBinding(Resource.TOPIC, "*", PatternType.LITERAL, "User:*", "*", Operation.ALL, Permission.ALLOW)
    denied = [rule._replace(principal=f"User:{user}", permission_type=Permission.DENY) for user in OTHERS]
    assert made == [rule, *denied]
    assert brokers.asked == [f"revoked the rights of {user}" for user in OTHERS]
    other = Brokers()
    assert not other.client._has_enough
    other.world.stopping = True
    assert other.client._has_enough


async def test_each_user_has_a_connection_of_its_own_and_one_that_fails_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers()
    connected: list[Any] = []
    slept: list[float] = []
    outcomes = iter(["ok", "ok", "fails", "ok", "next", "closed", "late", "end"])

    async def connect(address: Address, settings: Any) -> Any:
        brokers.closed = False
        keys = settings.security.keys
        connected.append((str(address), settings.client_id, *keys.values()))
        assert list(keys) == ["sasl.mechanism", "sasl.username", "sasl.password"]
        return brokers

    async def ask(_: Any, address: str, user: str) -> None:
        assert address == "h1:1"
        outcome = next(outcomes)
        brokers.asked.append(f"{user} {outcome}")
        if outcome == "fails":
            raise ConnectionFailedError("away")
        if outcome == "late":
            raise TimeoutError
        if outcome == "next":
            brokers.client._users.pop(0)
        brokers.closed = outcome == "closed"
        if outcome == "end":
            brokers.client._users.clear()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(revoker, "connect", connect)
    monkeypatch.setattr(revoker, "asyncio", stand_in(asyncio, sleep=sleep))
    monkeypatch.setattr(brokers.client, "_ask", ask)
    brokers.client._random = cast("Any", SimpleNamespace(expovariate=lambda rate: rate))
    await brokers.client._ask_on("h1:1")
    first, second = OTHERS[:2]
    assert connected == [("h1:1", "revoker", "PLAIN", user, "psst") for user in (first, first, second, second, second)]
    assert slept == [20.0] * 8
    assert brokers.closes == 4, "after a failure, for the next user, one that was closed, after what was late"
