"""Share sessions: their epochs, how many there are, and what ends them."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing import sessions as module
from penstock.sharing.sessions import FINAL_EPOCH, LAST_EPOCH, SessionKey, ShareSessions, TopicPartition

ANN, BOB = SessionKey("g", "ann"), SessionKey("g", "bob")
PLACES = [TopicPartition(UUID(int=1), number) for number in range(3)]


def refusal(sessions: ShareSessions, key: SessionKey, epoch: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        sessions.at(key, epoch)
    return refused.value.code


def test_each_request_is_one_further() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(ANN, 1)
    assert refusal(sessions, ANN, 2) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.at(ANN, 1) is session
    assert sessions.at(ANN, 2).epoch == 3
    assert sessions.at(ANN, FINAL_EPOCH).epoch == 3, "the last request may come at any time"
    assert refusal(sessions, BOB, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session.epoch = LAST_EPOCH
    assert sessions.at(ANN, LAST_EPOCH).epoch == 1


def test_one_that_begins_again_takes_no_room() -> None:
    sessions = ShareSessions(1)
    former = sessions.open(ANN, 1)
    session = sessions.open(ANN, 2)
    assert (sessions.is_open(former), sessions.is_open(session), len(sessions)) == (False, True, 1)
    with pytest.raises(KafkaError, match=r"group\.share\.max\.share\.sessions"):
        sessions.open(BOB, 2)
    assert sessions.on_connection(1) == []
    assert sessions.on_connection(2) == [ANN]


def test_a_group_has_members_until_the_last_has_gone() -> None:
    sessions = ShareSessions(10)
    sessions.open(ANN, 1)
    sessions.open(BOB, 1)
    assert sessions.on_connection(1) == [ANN, BOB]
    sessions.close(ANN)
    assert sessions.close(ANN) is None
    assert sessions.has_members("g")
    sessions.close(BOB)
    assert not sessions.has_members("g")
    assert sessions.on_connection(1) == []


def test_all_have_so_many_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTITIONS", 4)
    sessions = ShareSessions(10)
    ann, bob, cid = (sessions.open(SessionKey("g", name), 1, name) for name in ("ann", "bob", "cid"))
    for place in (*PLACES[:2], PLACES[0]):
        sessions.remember(ann, place)
    for place in PLACES[:2]:
        sessions.remember(bob, place)
    with pytest.raises(KafkaError, match="share sessions have 4 partitions already") as refused:
        sessions.remember(cid, PLACES[1])
    assert refused.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.forget(ann, PLACES[2])
    assert sessions.partition_count == 4
    sessions.forget(ann, PLACES[1])
    sessions.remember(cid, PLACES[1])
    sessions.close(BOB)
    sessions.remember(bob, PLACES[2])
    sessions.forget(bob, PLACES[1])
    assert (sessions.partition_count, len(bob.partitions)) == (2, 1), "one that is closed counts no more"


def test_one_owner_has_half_of_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a client that names very many, of a topic that nobody has, keeps all others out."""
    monkeypatch.setattr(module, "MOST_PARTITIONS", 4)
    sessions = ShareSessions(10)
    ann, again, other = (sessions.open(SessionKey("g", str(number)), 1, "ann") for number in range(3))
    bob = sessions.open(BOB, 1, "bob")
    sessions.remember(ann, PLACES[0])
    sessions.remember(again, PLACES[0])
    sessions.remember(again, PLACES[0])
    with pytest.raises(KafkaError, match="sessions of ann have 2 partitions: half of what all may have") as refused:
        sessions.remember(other, PLACES[1])
    assert refused.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.remember(bob, PLACES[1])
    sessions.close(ann.key)
    sessions.remember(other, PLACES[1])


def test_another_partition_is_first_each_time() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(ANN, 1)
    session.partitions |= dict.fromkeys(PLACES, True)
    firsts = [sessions.at(ANN, epoch).rotated()[0] for epoch in range(1, 4)]
    assert sorted(firsts) == PLACES
    session.partitions.clear()
    assert session.rotated() == []


def test_nothing_is_left_of_sessions_that_are_gone() -> None:
    sessions = ShareSessions(10)
    for number, key in enumerate((ANN, BOB, ANN)):
        session = sessions.open(key, number, f"owner {number}")
        sessions.remember(session, PLACES[0])
    sessions.close(ANN)
    assert (sessions._owners, sessions._members, sessions._by_connection) == ({"owner 1": 1}, {"g": 1}, {1: {BOB}})
    assert sessions._named == {"owner 1": 1}
    assert sessions.partition_count == 1
    sessions.close(BOB)
    assert (sessions._owners, sessions._members, sessions._by_connection, len(sessions)) == ({}, {}, {}, 0)
    assert (sessions.partition_count, sessions._named) == (0, {})
