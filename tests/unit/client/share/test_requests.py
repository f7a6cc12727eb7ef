"""Which request of a share consumer goes where, and when."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.share.requesting import NAMES, T0, T1, U0, World, acknowledged, fetched, given

from penstock.client.errors import ConnectionFailedError
from penstock.client.share import requests
from penstock.client.share.acknowledgements import Acknowledgements
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.share_fetch import ShareFetchRequest

ACCEPT, RENEW = 1, 4


# -- what was fetched -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "taken"), [(0, []), (1, [2]), (2, [2]), (3, [2, 3]), (5, [2, 3]), (6, [2, 3, 1]), (9, [2, 3, 1])]
)
async def test_as_many_are_taken_as_are_wanted_or_there(limit: int, taken: list[int]) -> None:
    world = World()
    world.requests._fetched.extend([given(1, T0, 0, 1), given(1, T1, 0, 1, 2), given(2, U0, 0)])
    assert [len(one.records) for one in world.requests.take(limit)] == taken
    assert len(world.requests._fetched) == 3 - len(taken)


async def test_an_error_is_told_once_after_what_was_fetched() -> None:
    world, error = World(), DecodeError("the first")
    world.requests._fetched.extend([given(1, T0, 0), given(1, T1, error=error), given(2, U0, error=DecodeError("2nd"))])
    assert len(world.requests.take(1)) == 1
    assert len(world.requests.take(1)) == 2, "the one with an error has no records"
    with pytest.raises(DecodeError) as raised:
        world.requests.take(1)
    assert raised.value is error
    assert world.requests.take(1) == []


# -- which request goes where -----------------------------------------------------------------------------------------


async def test_a_fetch_says_what_the_settings_say() -> None:
    world = World(
        fetch_max_wait_ms=11,
        fetch_min_bytes=12,
        fetch_max_bytes=13,
        max_poll_records=14,
        request_timeout_ms=1_000,
    )
    world.requests.send(wants_records=True)
    await world.settled()
    (first, request, limit_ms), (second, other, _) = world.asked
    assert (first, second, limit_ms) == (1, 2, 1_011)
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records, request.batch_size)
    assert limits == (11, 12, 13, 14, 14)
    assert request.share_acquire_mode == 0
    assert [(t.topic_id, [p.partition_index for p in t.partitions]) for t in request.topics] == [(T0[0], [0, 1])]
    assert [(t.topic_id, [p.partition_index for p in t.partitions]) for t in other.topics] == [(U0[0], [0])]
    await world.ended()


@pytest.mark.parametrize(("mode", "nodes"), [("batch_optimized", [1, 2]), ("record_limit", [1])])
async def test_with_a_limit_of_records_one_node_is_asked_at_a_time(mode: str, nodes: list[int]) -> None:
    world = World(share_acquire_mode=mode)
    world.requests.send(wants_records=True)
    await world.settled()
    assert [node_id for node_id, *_ in world.asked] == nodes
    assert {request.share_acquire_mode for _, request, _ in world.asked} == {int(mode == "record_limit")}
    await world.ended()


async def test_nodes_take_turns() -> None:
    world = World(share_acquire_mode="record_limit")
    world.leaders[NAMES[T1]] = 3
    for node_id in (1, 2, 3):
        world.answers[node_id] = [fetched() for _ in range(9)]
    for _ in range(7):
        world.requests.send(wants_records=True)
        await world.settled()
    assert [node_id for node_id, *_ in world.asked] == [1, 3, 2, 1, 3, 2, 1]
    assert world.requests._fetching == {1: 7, 3: 5, 2: 6}
    assert world.news == 7


async def test_what_a_node_is_asked() -> None:
    """`is_open` is None where there is no session at all."""
    kinds = ("nothing", "a record", "one that was not taken", "another node's")
    flags = (False, True)
    for holds, says, wants_records, is_open, is_wanted in product(
        kinds, (None, ACCEPT, RENEW), flags, (None, *flags), flags
    ):
        world = World()
        world.requests.assign({T0: NAMES[T0]} if is_wanted else {})
        if is_open is not None:
            world.opened(1)
            world.requests._sessions[1]._epoch = int(is_open)
        if says is not None:
            world.acknowledged(T0, {5: says})
        if holds == "a record":
            world.held.add(1)
        elif holds != "nothing":
            world.requests._fetched.append(given(1 if holds == "one that was not taken" else 2, T0, 1))
        world.requests.send(wants_records=wants_records)
        await world.settled()
        goes = says is not None and bool(is_open)
        if wants_records and is_wanted and not (goes and says == RENEW):
            expected = [(1, "Fetch", int(bool(is_open)))]
        elif goes:
            expected = [(1, "Acknowledge", 1)]
        elif is_open and not is_wanted and holds in ("nothing", "another node's"):
            expected = [(1, "Acknowledge", -1)]
        else:
            expected = []
        assert world.sent() == expected
        there = is_open is not None or says is not None or is_wanted
        assert (1 in world.requests._sessions) == (there and (bool(is_open) or is_wanted or bool(expected)))
        assert [type(error) for _, error in world.done] == ([KafkaError] if says is not None and not is_open else [])
        await world.ended()


async def test_a_node_that_is_asked_already_is_left_alone() -> None:
    world = World()
    for _ in range(2):
        world.requests.send(wants_records=True)
        await world.settled()
    assert world.sent() == [(1, "Fetch", 0), (2, "Fetch", 0)]
    await world.ended()


async def test_a_leader_that_is_not_known_is_looked_up() -> None:
    world = World()
    del world.leaders[NAMES[U0]]
    world.requests.send(wants_records=True)
    await world.settled()
    assert [node_id for node_id, *_ in world.asked] == [1]
    assert world.refreshed == [["t", "u"]]
    await world.ended()


@pytest.mark.parametrize(
    ("leader", "is_open", "deadline_s", "text"),
    [
        (1, True, 10, None),
        (None, True, 10, None),
        (2, True, 10, "NOT_LEADER_OR_FOLLOWER: t-0 has another leader by now"),
        (1, False, 10, "NETWORK_EXCEPTION: the session with node 1 was lost, and its records with it"),
        (1, True, 9, "REQUEST_TIMED_OUT: t-0: not within default.api.timeout.ms"),
    ],
)
async def test_why_acknowledgements_come_to_nothing(
    leader: int | None, deadline_s: float, text: str | None, *, is_open: bool
) -> None:
    world = World()
    world.leaders = {} if leader is None else {NAMES[T0]: leader}
    world.opened(1)
    world.requests._sessions[1]._epoch = int(is_open)
    one = Acknowledgements(1, T0, {1: ACCEPT})
    one.deadline_s = deadline_s
    error = world.requests._why_not(one, 9)
    assert (None if error is None else str(error)) == text


async def test_those_that_come_to_nothing_do_not_keep_others() -> None:
    world = World()
    world.opened(1)
    world.leaders[NAMES[T1]] = 2
    good, bad = world.acknowledged(T0, {1: ACCEPT}), world.acknowledged(T1, {1: ACCEPT})
    world.requests.send(wants_records=False)
    await world.settled()
    (_, request, _), *_ = world.asked
    assert [(t.topic_id, [p.partition_index for p in t.partitions]) for t in request.topics] == [(T0[0], [0])]
    assert (good.is_done, bad.is_done) == (False, True)
    assert [(some, str(error)) for some, error in world.done] == [
        ([bad], "NOT_LEADER_OR_FOLLOWER: t-1 has another leader by now")
    ]
    assert world.requests._open == {good: None}
    await world.ended()


async def test_until_when_it_is_tried_is_said_when_it_comes_first() -> None:
    world = World(default_api_timeout_ms=5_000)
    loop = asyncio.get_running_loop()
    begins_s = loop.time()
    one = world.acknowledged(T0, {1: ACCEPT})
    assert begins_s + 5 <= one.deadline_s <= loop.time() + 5
    before = one.deadline_s = 3.0
    world.requests.acknowledge([one])
    assert one.deadline_s == before


# -- one after the other ----------------------------------------------------------------------------------------------


async def test_what_is_acknowledged_meanwhile_goes_next() -> None:
    world = World()
    world.opened(1)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    world.answers[1] = [answer]
    world.requests.assign({T0: NAMES[T0]})
    world.requests.send(wants_records=True)
    await world.settled()
    world.acknowledged(T0, {7: ACCEPT})
    await world.settled()
    assert world.sent() == [(1, "Fetch", 1)]
    answer.set_result(fetched())
    await world.settled()
    assert world.sent() == [(1, "Fetch", 1), (1, "Fetch", 2)], "and more is wanted still"
    batches = [p.acknowledgement_batches for t in world.asked[1][1].topics for p in t.partitions]
    assert [(one.first_offset, one.acknowledge_types) for of in batches for one in of] == [(7, [ACCEPT])]
    await world.ended()


async def test_who_wants_nothing_more_closes_the_session_when_the_answer_is_there() -> None:
    world = World()
    world.opened(1)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    world.answers[1] = [answer, acknowledged()]
    world.requests.assign({T0: NAMES[T0]})
    world.requests.send(wants_records=True)
    await world.settled()
    world.requests._fetched.append(given(1, T0, 1))
    world.requests.unsubscribe()
    assert (world.requests.topics, world.requests._assigned, world.requests._fetched) == (
        (),
        {},
        type(world.requests._fetched)(),
    )
    answer.set_result(fetched())
    await world.settled()
    assert world.sent() == [(1, "Fetch", 1), (1, "Acknowledge", -1)]
    assert (world.requests._sessions, world.requests._fetching) == ({}, {}), "the next look forgets one that is closed"
    assert world.requests.name_of(T0) == NAMES[T0], "partitions of before have names still"


async def test_a_request_that_failed_for_good_is_told_by_the_next_poll() -> None:
    world = World()
    errors = [ValueError("the first"), ValueError("the second")]
    world.answers = {1: errors[:1], 2: errors[1:], 3: []}
    world.requests.send(wants_records=True)
    await world.settled()
    assert world.news == 2
    with pytest.raises(ValueError, match="the first"):
        world.requests.take(9)
    assert world.requests.take(9) == []


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_the_end_waits_for_what_is_under_way_and_closes_what_is_open() -> None:
    world = World()
    world.opened(1, 2)
    world.held.add(2)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    last: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    world.answers = {1: [answer, acknowledged()], 2: [last], 3: []}
    world.requests.assign({T0: NAMES[T0]})
    world.requests.send(wants_records=True)
    world.opened(3)
    world.requests._sessions[3].lost()
    late, paused = world.acknowledged(T0, {7: ACCEPT}), Acknowledgements(1, T1, {8: ACCEPT})
    paused.deadline_s = late.deadline_s
    world.requests._pausing[paused] = asyncio.get_running_loop().call_later(3_600, lambda: None)
    world.requests._fetched.append(given(2, U0, 1))
    closing = asyncio.create_task(world.requests.close())
    await world.settled()
    assert world.sent() == [(1, "Fetch", 1)]
    answer.set_result(fetched())
    await world.settled()
    assert world.sent()[1:] == [(1, "Acknowledge", -1), (2, "Acknowledge", -1)]
    said = [
        (t.topic_id, p.partition_index, b.first_offset)
        for t in world.asked[1][1].topics
        for p in t.partitions
        for b in p.acknowledgement_batches
    ]
    assert said == [(*T0, 7), (*T1, 8)]
    assert not closing.done()
    last.set_result(acknowledged())
    await closing
    assert (world.requests._pausing, list(world.requests._fetched)) == ({}, [])
    assert not any(session.is_open for session in world.requests._sessions.values())


async def test_each_session_is_closed_once_where_nothing_is_subscribed_to() -> None:
    world = World()
    world.opened(1, 2)
    answer, *ends = (asyncio.get_running_loop().create_future() for _ in range(3))
    world.answers = {1: [answer, ends[0]], 2: [ends[1]], 3: []}
    world.acknowledged(T0, {7: ACCEPT})
    world.held.add(2)
    world.requests.send(wants_records=False)
    world.requests.unsubscribe()
    world.held.clear()
    closing = asyncio.create_task(world.requests.close())
    await world.settled()
    assert world.sent() == [(1, "Acknowledge", 1)]
    answer.set_result(acknowledged())
    await world.settled()
    assert world.sent()[1:] == [(1, "Acknowledge", -1), (2, "Acknowledge", -1)]
    for end in ends:
        end.set_result(acknowledged())
    await closing


async def test_who_ends_looks_up_nobody() -> None:
    world = World()
    await world.requests.close()
    await world.requests._look_again()
    assert (world.refreshed, world.settings.attempts) == ([], [])


async def test_who_gives_up_tells_what_was_not_answered() -> None:
    world = World()
    world.opened(1)
    sent, waiting, paused = world.acknowledged(T0, {1: ACCEPT}), None, Acknowledgements(1, T1, {1: ACCEPT})
    world.requests.send(wants_records=False)
    await world.settled()
    waiting = world.acknowledged(T0, {2: ACCEPT})
    timer = world.requests._pausing[paused] = asyncio.get_running_loop().call_later(3_600, lambda: None)
    world.requests._looking = looking = asyncio.create_task(asyncio.Event().wait())  # type: ignore[assignment]
    await world.requests.abandon()
    ((some, error),) = world.done
    assert some == [sent, waiting]
    assert str(error) == "REQUEST_TIMED_OUT: there was no answer before the consumer was closed"
    assert (looking.cancelled(), timer.cancelled(), world.requests._open) == (True, True, {})


# -- leaders ----------------------------------------------------------------------------------------------------------


async def test_it_is_looked_for_leaders_by_one_task_with_pauses_that_grow() -> None:
    world = World()
    world.refresh_fails = [ConnectionFailedError("gone")]
    for _ in range(2):
        world.requests.look_again_soon()
    await world.settled()
    world.requests.look_again_soon()
    await world.settled()
    assert (world.refreshed, world.settings.attempts, world.news) == ([["t", "u"]] * 2, [0, 1], 2)
    world.refresh_fails = [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")]
    world.requests.look_again_soon()
    await world.settled()
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED: no"):
        world.requests.take(1)
    world.answers[1] = world.answers[2] = [fetched(), fetched()]
    world.requests.send(wants_records=True)
    await world.settled()
    assert all(isinstance(request, ShareFetchRequest) for _, request, _ in world.asked)
    world.requests.look_again_soon()
    await world.settled()
    assert world.settings.attempts == [0, 1, 2, 0], "a good answer ends what grew"


async def test_so_many_partitions_are_remembered_that_are_assigned_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_BEFORE", 2)
    world = World()
    places = [(UUID(int=number), 0) for number in range(10, 16)]
    world.requests.acknowledge([Acknowledgements(1, T1, {3: 1})])
    for place in places:
        world.requests.assign({T0: NAMES[T0], place: TopicPartition("v", 0)})
    assert list(world.requests._names) == [T1, *places[3:5], T0, places[5]], "with one of which somebody waits to hear"
