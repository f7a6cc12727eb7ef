"""What answers to the requests of a share consumer mean for its records, acknowledgements, sessions and leaders."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.client.share.requesting import NAMES, T0, T1, U0, World, acknowledged, fetched

from penstock.client.errors import (
    AnswerTooLargeError,
    AuthenticationFailedError,
    ConnectionFailedError,
    UnsupportedByBrokerError,
)
from penstock.client.share import requests as module
from penstock.client.share.acknowledgements import Acknowledgements, Place
from penstock.client.share.requests import PASSING
from penstock.client.share.session import LOST, NOT_OPEN
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import share_acknowledge, share_fetch
from penstock.protocol.records import Record, encode_batch

ACCEPT, RELEASE, RENEW = 1, 2, 4
REFUSALS = [code for code in ErrorCode if code]
ENDPOINT = share_fetch.NodeEndpoint(node_id=3, host="h", port=3)


def fetch_answer(*rows: tuple[Place, share_fetch.PartitionData], **more: Any) -> share_fetch.ShareFetchResponse:
    topics = [
        share_fetch.ShareFetchableTopicResponse(topic_id=topic, partitions=[row.replace(partition_index=index)])
        for (topic, index), row in rows
    ]
    return fetched(responses=topics, **more)


def row(*offsets: int, **more: Any) -> share_fetch.PartitionData:
    records = b"".join(bytes(encode_batch([Record(at, 5, None, b"v", [])], base_offset=at)) for at in offsets)
    taken = [share_fetch.AcquiredRecords(first_offset=at, last_offset=at, delivery_count=1) for at in offsets]
    return share_fetch.PartitionData(records=records, acquired_records=taken, **more)


def ack_answer(*rows: tuple[Place, int], **more: Any) -> share_acknowledge.ShareAcknowledgeResponse:
    topics = [
        share_acknowledge.ShareAcknowledgeTopicResponse(
            topic_id=topic,
            partitions=[share_acknowledge.PartitionData(partition_index=index, error_code=code, error_message="so")],
        )
        for (topic, index), code in rows
    ]
    return acknowledged(responses=topics, **more)


async def asked(world: World, answer: Any, *, fetches: bool) -> list[Acknowledgements]:
    """Node 1 is asked, with acknowledgements for `T0`, and answers."""
    world.opened(1)
    one = world.acknowledged(T0, {5: ACCEPT})
    world.answers[1] = [answer]
    world.requests.assign({T0: NAMES[T0], T1: NAMES[T1]})
    world.requests.send(wants_records=fetches)
    await world.settled()
    return [one]


def told(world: World) -> list[tuple[list[Acknowledgements], str]]:
    return [(some, str(error)) for some, error in world.done]


# -- refusals of the whole --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fetches", [False, True])
async def test_what_a_refusal_of_the_whole_means(*, fetches: bool) -> None:
    for code in REFUSALS:
        world = World()
        answer = fetched if fetches else acknowledged
        some = await asked(world, answer(error_code=code, error_message="so"), fetches=fetches)
        refusal = f"NETWORK_EXCEPTION: {code.name}: so" if code in LOST else f"{code.name}: so"
        assert told(world) == [(some, refusal)]
        assert world.requests._sessions[1].is_open == (code not in NOT_OPEN)
        passes = code in NOT_OPEN or code in PASSING or KafkaError(code).retriable
        assert world.refreshed == ([["t", "u"]] if passes else [])
        if passes:
            assert world.requests.take(1) == []
        else:
            with pytest.raises(KafkaError, match=f"{code.name}: so"):
                world.requests.take(1)


@pytest.mark.parametrize("fetches", [False, True])
@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionFailedError("gone"), True),
        (AnswerTooLargeError("large"), True),
        (AuthenticationFailedError("no"), False),
    ],
)
async def test_without_an_answer_the_session_is_lost(error: Exception, *, passes: bool, fetches: bool) -> None:
    world = World()
    some = await asked(world, error, fetches=fetches)
    assert world.done == [(some, error)]
    assert not world.requests._sessions[1].is_open
    assert world.refreshed == ([["t", "u"]] if passes else [])
    if not passes:
        with pytest.raises(type(error)):
            world.requests.take(1)


# -- acknowledgements -------------------------------------------------------------------------------------------------


async def test_an_acknowledgement_that_is_refused_for_now_is_tried_again() -> None:
    for code in ErrorCode:
        world = World()
        (one,) = await asked(world, ack_answer((T0, code)), fetches=False)
        tries_again = KafkaError(code).retriable and code not in PASSING
        assert one.is_done != tries_again
        assert one.failures == int(tries_again)
        if tries_again:
            assert world.done == []
            await world.settled()
            assert world.sent() == [(1, "Acknowledge", 1), (1, "Acknowledge", 2)], "at once, as no pause is wanted"
            assert world.requests._pausing == {}
            assert world.settings.attempts[:1] == [1]
        else:
            assert told(world) == [([one], f"{code.name}: so" if code else "None")]
        await world.ended()


@pytest.mark.parametrize("fetches", [False, True])
async def test_what_an_answer_does_not_name_was_not_taken(*, fetches: bool) -> None:
    world = World()
    answer = fetch_answer((T1, row())) if fetches else ack_answer((T1, 0))
    (one,) = await asked(world, answer, fetches=fetches)
    assert told(world) == [([one], "INVALID_RECORD_STATE: not in the broker's answer")]


async def test_with_a_fetch_each_has_an_outcome_at_once() -> None:
    for code in ErrorCode:
        world = World()
        answer = fetch_answer(
            (T0, share_fetch.PartitionData(acknowledge_error_code=code, acknowledge_error_message="so"))
        )
        (one,) = await asked(world, answer, fetches=True)
        assert told(world) == [([one], f"{code.name}: so" if code else "None")]
        assert (one.is_done, world.requests._open) == (True, {})


async def test_at_the_end_nothing_is_tried_again() -> None:
    world = World()
    world.opened(1)
    one = world.acknowledged(T0, {5: ACCEPT})
    world.answers[1] = [ack_answer((T0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))]
    await world.requests.close()
    assert told(world) == [([one], "COORDINATOR_LOAD_IN_PROGRESS: so")]
    assert (world.told, world.requests._pausing) == ([], {})
    assert not world.requests._sessions[1].is_open


async def test_the_pause_before_another_try_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    loop = asyncio.get_running_loop()

    def call_later(pause_s: float, again: Any) -> Any:
        pauses.append(pause_s)
        return loop.call_soon(again)

    seen = SimpleNamespace(call_later=call_later, time=loop.time)
    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, get_running_loop=lambda: seen))
    world = World()
    monkeypatch.setattr(type(world.settings), "backoff_ms", lambda self, attempt: 1_500.0 * attempt)
    world.opened(1)
    one = world.acknowledged(T0, {5: ACCEPT})
    refused = ack_answer((T0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    world.answers[1] = [refused, refused, ack_answer((T0, 0))]
    world.requests.send(wants_records=False)
    for _ in range(3):
        await world.settled()
    assert (pauses, one.failures, told(world)) == ([1.5, 3.0], 2, [([one], "None")])


async def test_what_was_to_be_tried_again_waits_for_the_end_where_that_has_come() -> None:
    world = World()
    world.opened(1)
    one = world.acknowledged(T0, {5: ACCEPT})
    world.requests._waiting.clear()
    world.requests._try_again(one)
    world.requests._is_closing = True
    await world.settled()
    assert (world.requests._waiting, world.requests._pausing, world.asked) == ({1: [one]}, {}, [])


@pytest.mark.parametrize(("version", "renews", "goes"), [(1, True, False), (2, True, True), (1, False, True)])
async def test_a_broker_that_renews_no_locks_is_not_asked_to(version: int, *, renews: bool, goes: bool) -> None:
    world = World()
    world.version = version
    world.opened(1)
    one = world.acknowledged(T0, {5: RENEW if renews else RELEASE})
    world.answers[1] = [ack_answer((T0, 0))]
    world.requests.send(wants_records=False)
    await world.settled()
    assert (len(world.asked), one.is_done) == (int(goes), True)
    ((_, error),) = world.done
    assert isinstance(error, UnsupportedByBrokerError) != goes
    assert goes or str(error) == "h:1 renews no locks (KIP-1222)"
    assert world.requests._sessions[1].is_open, "nothing was asked, and nothing lost"


@pytest.mark.parametrize("fetches", [False, True])
@pytest.mark.parametrize(("first_ms", "then_ms", "known_ms"), [(0, 0, None), (1, 0, 1), (7, 5, 5), (-1, 0, None)])
async def test_how_long_a_record_is_ones_own_is_what_was_said_last(
    first_ms: int, then_ms: int, known_ms: int | None, *, fetches: bool
) -> None:
    world = World()
    for timeout_ms in (first_ms, then_ms):
        if fetches:
            answer: Any = fetch_answer((T0, row()), acquisition_lock_timeout_ms=timeout_ms)
        else:
            answer = ack_answer((T0, 0), acquisition_lock_timeout_ms=timeout_ms)
        await asked(world, answer, fetches=fetches)
    assert world.requests.lock_timeout_ms == known_ms


# -- records ----------------------------------------------------------------------------------------------------------


async def test_records_are_taken_of_partitions_that_are_known_and_not_refused() -> None:
    world = World()
    answer = fetch_answer(
        (T0, row(3, 4)),
        (T1, row(5, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="no")),
        (U0, row(6)),
        ((U0[0], 9), row(7)),
    )
    await asked(world, answer, fetches=True)
    found = list(world.requests._fetched)
    assert [(one.place, [record.offset for record in one.records]) for one in found] == [(T0, [3, 4]), (U0, [6])]
    assert not world.requests._wants_records
    assert [len(one.records) for one in world.requests.take(9)] == [2, 1]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-1: no"):
        world.requests.take(9)


@pytest.mark.parametrize("wants", [False, True])
async def test_without_records_more_are_wanted_still(*, wants: bool) -> None:
    world = World()
    await asked(world, fetch_answer((T0, row())), fetches=wants)
    assert world.requests._wants_records == wants
    assert not world.requests._fetched


async def test_records_that_cannot_be_read_are_an_error() -> None:
    world = World()
    too_many = [share_fetch.AcquiredRecords(first_offset=0, last_offset=1_000_000, delivery_count=1)]
    bad = share_fetch.PartitionData(acquired_records=too_many)
    await asked(world, fetch_answer((T0, bad), (U0, bad), (T1, row(1))), fetches=True)
    assert len(world.requests.take(1)) == 1
    with pytest.raises(Exception, match="t-0: more than 1000000 records are acquired at a time"):
        world.requests.take(1)


@pytest.mark.parametrize("check_crcs", [False, True])
async def test_a_checksum_is_looked_at_if_that_is_wanted(*, check_crcs: bool) -> None:
    world = World(check_crcs=check_crcs)
    damaged = row(1)
    assert damaged.records is not None
    content = bytearray(damaged.records)
    content[-2] ^= 1
    await asked(world, fetch_answer((T0, damaged.replace(records=bytes(content)))), fetches=True)
    (found,) = world.requests._fetched
    assert (found.error is not None) == check_crcs


# -- leaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learns", [False, True])
async def test_what_a_refusal_of_a_partition_means(*, learns: bool) -> None:
    for code in REFUSALS:
        world = World()
        world.learned = {NAMES[T0]} if learns else set()
        leader = share_fetch.LeaderIdAndEpoch(leader_id=3, leader_epoch=7)
        answer = fetch_answer((T0, row(error_code=code, current_leader=leader)), node_endpoints=[ENDPOINT])
        await asked(world, answer, fetches=True)
        names = code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        assert world.told == [(1, {NAMES[T0]: leader} if names else {}, [ENDPOINT])]
        assert world.refreshed == ([["t", "u"]] if code in PASSING and not learns else [])
        if code in PASSING or code is ErrorCode.INVALID_RECORD_STATE:
            assert world.requests.take(1) == []
        else:
            with pytest.raises(KafkaError, match=f"{code.name}: t-0: {code.name}"):
                world.requests.take(1)


async def test_the_first_refusal_is_told() -> None:
    world = World()
    codes = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST
    await asked(
        world,
        fetch_answer(*((at, row(error_code=code)) for at, code in zip((T0, T1), codes, strict=True))),
        fetches=True,
    )
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        world.requests.take(1)
    assert world.requests.take(1) == []


async def test_of_partitions_that_nobody_knows_nothing_is_learned() -> None:
    world = World()
    unknown = (T0[0], 9)
    leader = share_fetch.LeaderIdAndEpoch(leader_id=3, leader_epoch=7)
    refused = row(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
    await asked(world, fetch_answer((unknown, refused), (T0, row())), fetches=True)
    assert (world.told, world.refreshed) == ([(1, {}, [])], [])


@pytest.mark.parametrize(("code", "looks"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.NONE, False)])
async def test_what_acknowledgements_tell_of_leaders_is_learned(code: ErrorCode, *, looks: bool) -> None:
    world = World()
    await asked(world, ack_answer((T0, code), node_endpoints=[]), fetches=False)
    assert (len(world.told), world.refreshed) == (1, [["t", "u"]] if looks else [])


def test_which_refusals_have_a_leader_looked_up_again() -> None:
    assert {code.name for code in PASSING} == {
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
        "REPLICA_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_SERVER_ERROR",
    }
    assert [code.name for code in NOT_OPEN] == [
        "SHARE_SESSION_NOT_FOUND",
        "INVALID_SHARE_SESSION_EPOCH",
        "SHARE_SESSION_LIMIT_REACHED",
    ]
    assert NOT_OPEN[:2] == LOST
