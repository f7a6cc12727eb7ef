"""Fetch sessions beside clients that remember what they asked for; which of their partitions have nothing to tell."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.partitions.test_fetch_sessions import ID, planned, request

from penstock.node.partitions import fetch_sessions
from penstock.node.partitions.fetch_sessions import (
    EVICTION_MS,
    LOOK_AT_ALL_S,
    FetchSessions,
    Session,
    StandingWait,
    Wanted,
    wanted_in,
)
from penstock.node.serving.slices import at_once
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import FetchPartition
from penstock.replication.waits import Waits


class Client:
    """One session, and what it names in its order."""

    def __init__(self) -> None:
        self.session_id = self.epoch = 0
        self.offsets: dict[int, int] = {}


@pytest.mark.parametrize("seed", range(10))
def test_a_session_has_what_its_client_has_asked_for(seed: int) -> None:
    random, sessions = Random(seed), FetchSessions(100, Random(seed))
    clients, closed = [Client() for _ in range(3)], 0
    for now_ms in range(200):
        client = random.choice(clients)
        named = {index: random.randrange(9) for index in range(5) if random.random() < 0.4}
        gone = [index for index in range(5) if index not in named and random.random() < 0.2]
        if client.epoch and random.random() < 0.1:
            with pytest.raises(KafkaError) as refused:
                planned(sessions, request(client.session_id, client.epoch + 1, *named.items()))
            assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            continue
        epoch = random.choice((client.epoch, client.epoch, client.epoch, 0, -1))
        plan = planned(sessions, request(client.session_id, epoch, *named.items(), forget=gone), now_ms=now_ms)
        if epoch > 0:
            client.offsets = {at: one for at, one in (client.offsets | named).items() if at not in gone}
        else:
            client.offsets = named
        assert {index: one.request.fetch_offset for (_, index), one in plan.wanted.items()} == client.offsets
        assert plan.is_incremental is (epoch > 0 and bool(client.offsets))
        has_session = epoch >= 0 and bool(client.offsets)
        assert bool(plan.session_id) is has_session
        closed += epoch > 0 and not has_session
        client.session_id, client.epoch = plan.session_id, epoch + 1 if has_session else 0
        if plan.session is not None:
            assert (plan.session.last_used_ms, plan.session.is_open) == (now_ms, True)
        open_now = [one for one in clients if one.session_id]
        assert len(sessions) == len(open_now)
        assert sessions._remembered == sum(len(one.offsets) for one in open_now)
        assert list(sessions._sessions) == sorted(
            sessions._sessions, key=lambda one: sessions._sessions[one].last_used_ms
        )


def quiet(**changes: Any) -> bool:
    """Whether a client has read and heard everything; it has, but for these changes."""
    fields: dict[str, Any] = {
        "replica_id": 2, "offset": 5, "high_watermark": 5, "told": 5, "start": 1, "told_start": 1, "has_ends": True,
        "leader_end": 5, "isr": (1, 2), "leads": True, "is_read": True, "is_same_role": True,
        "has_role": True,
    }  # fmt: skip
    assert changes.keys() <= fields.keys()
    one = SimpleNamespace(**(fields | changes))
    role = SimpleNamespace(committed=SimpleNamespace(high_watermark=one.high_watermark))
    partition = SimpleNamespace(
        role=None if not one.has_role else role if one.is_same_role else object(),
        log=SimpleNamespace(has_known_ends=one.has_ends),
        log_start_offset=one.start,
        leader=SimpleNamespace(log_end_offset=one.leader_end, isr=one.isr) if one.leads else None,
    )
    wanted = Wanted(("t", 0), FetchPartition(index=0, fetch_offset=one.offset, max_bytes=1))
    assert (wanted.told_high_watermark, wanted.told_log_start_offset) == (-1, -1)
    wanted.told_high_watermark, wanted.told_log_start_offset = one.told, one.told_start
    wanted.partition, wanted.role = (
        cast("Any", partition if one.is_read else None),
        cast("Any", role if one.has_role else None),
    )
    return wanted.is_quiet(one.replica_id)


@pytest.mark.parametrize(
    ("changes", "is_quiet"),
    [
        ({}, True),
        ({"offset": 4}, False),
        ({"high_watermark": 6}, False),
        ({"told": 4}, False),
        ({"start": 2}, False),
        ({"has_ends": False}, False),
        ({"leader_end": 6}, False),
        ({"isr": (1,)}, False),
        ({"leads": False}, False),
        ({"is_read": False}, False),
        ({"is_same_role": False}, False),
        ({"has_role": False}, False),
        ({"replica_id": -1, "leader_end": 6, "isr": (1,)}, True),
        ({"replica_id": -1, "leads": False}, True),
        ({"replica_id": 0}, False),
        ({"replica_id": 0, "isr": (0, 1)}, True),
    ],
)
def test_who_has_read_and_heard_everything(changes: dict[str, Any], is_quiet: bool) -> None:
    assert quiet(**changes) is is_quiet


def session_of(*indexes: int) -> Session:
    wanted = {("t", at): Wanted(("t", at), FetchPartition(index=at, fetch_offset=0, max_bytes=1)) for at in indexes}
    return Session(7, False, cast("Any", wanted), True, 0, 0)


def marks(session: Session) -> list[object]:
    return [wanted.key[1] for wanted in session.marked]


def test_a_poll_looks_at_what_is_marked_and_at_all_now_and_then() -> None:
    session = session_of(0, 1, 2)
    assert not session.keeps_marks
    session.ask(("t", 3), FetchPartition(index=3, fetch_offset=0, max_bytes=1))
    assert (session.marked, list(session.wanted)[-1]) == ({}, ("t", 3))
    assert [one.key[1] for one in session.to_look_at(0.0)] == [0, 1, 2, 3]
    assert session.keeps_marks
    session.marked.clear()
    assert session.to_look_at(LOOK_AT_ALL_S - 0.5) == []
    wanted, asked = session.wanted["t", 1], FetchPartition(index=1, fetch_offset=4, max_bytes=1)
    wanted.role = cast("Any", object())
    session.ask(("t", 1), asked)
    assert (wanted.request, wanted.role, marks(session)) == (asked, None, [1])
    session.ask(("t", 0), FetchPartition(index=0, fetch_offset=1, max_bytes=1))
    session.to_the_back([("t", 1), ("t", 2), ("t", 9)])
    assert ([at for _, at in session.wanted], marks(session)) == ([0, 3, 1, 2], [0, 1])
    session.to_the_back([("t", 0)])
    assert marks(session) == [1, 0]
    assert [one.key[1] for one in session.to_look_at(LOOK_AT_ALL_S)] == [3, 1, 2, 0]
    assert session.looked_at_all_s == LOOK_AT_ALL_S
    two = session_of(0, 1)
    two.to_the_back([("t", 0)])
    assert [at for _, at in two.wanted] == [1, 0]


def test_a_standing_wait_marks_its_partition_once_and_goes_with_it() -> None:
    session, waits, woken = session_of(0, 1), Waits(), list[int]()
    session.woken = lambda: woken.append(1)
    first, second = session.wanted.values()
    for wanted in (first, second):
        wanted.standing = StandingWait(session, wanted, waits, 3)
    session.marked[second] = None
    session.forget(("t", 1))
    session.forget(("t", 1))
    assert (second.standing, second.is_asked, marks(session), len(waits)) == (None, False, [], 1)
    standing = first.standing
    assert standing is not None
    for waiter in waits.take_due(3):
        waiter()
    assert (woken, marks(session), first.standing, first.is_asked) == ([1], [0], None, True)
    assert standing._wait is None, "it keeps nothing alive"
    waits.add(9, lambda: None)
    standing.cancel()
    assert len(waits) == 1, "it is over already"


def test_sessions_that_keep_marks_are_told_of_when_they_end() -> None:
    sessions = FetchSessions(10, Random(1))
    plans = [planned(sessions, request(0, 0, (0, 5))) for _ in range(2)]
    marked, plain = (plan.session for plan in plans)
    assert marked is not None
    assert plain is not None
    marked.to_look_at(0.0)
    for session in (marked, plain):
        sessions.close(session.session_id)
        sessions.close(session.session_id)
        assert not session.is_open
    assert sessions.ended == [marked]
    assert sessions._remembered == 0


class Plain:
    """A session as the rules of eviction see it."""

    def __init__(self, session_id: int, rank: tuple[bool, int], now_ms: int) -> None:
        self.session_id, self.rank, self.epoch = session_id, rank, 1
        self.created_ms = self.used_ms = now_ms


def gives_way(plain: list[Plain], newcomer: tuple[bool, int], now_ms: int) -> Plain | None:
    """As the table of `FetchSessions` says it; the first of them was not used for the longest time."""
    if plain and now_ms - plain[0].used_ms >= EVICTION_MS:
        return plain[0]
    old = [one for one in plain if now_ms - one.created_ms > EVICTION_MS and one.rank < newcomer]
    consumers = [one for one in plain if newcomer[0] and not one.rank[0]]
    return min(old + consumers, key=lambda one: one.rank, default=None)


@pytest.mark.parametrize("seed", range(10))
def test_which_session_gives_way_to_which(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 14)
    random, now_ms, most = Random(seed), 0, seed % 4
    sessions, plain = FetchSessions(most, Random(seed)), list[Plain]()
    for _ in range(150):
        now_ms += random.choice((0, 1, 1_000, EVICTION_MS // 2, EVICTION_MS // 2, EVICTION_MS))
        if plain and random.random() < 0.5:
            one = random.choice(plain)
            assert planned(sessions, request(one.session_id, one.epoch), now_ms=now_ms).session_id
            one.epoch, one.used_ms = one.epoch + 1, now_ms
            plain.remove(one)
            plain.append(one)
            continue
        replica, count = random.choice((-1, -1, 0, 3)), random.choice((1, 2, 5, 9, 15))
        frame, rank = request(0, 0, *((index, 0) for index in range(count))), (replica >= 0, count)
        frame.replica_id = replica
        session_id = planned(sessions, frame, now_ms=now_ms).session_id
        while is_full := len(plain) >= most or sum(one.rank[1] for one in plain) + count > 14:
            gone = gives_way(plain, rank, now_ms)
            if gone is None:
                break
            plain.remove(gone)
        plain += [] if is_full else [Plain(session_id, rank, now_ms)]
        assert bool(session_id) is not is_full
        assert list(sessions._sessions) == [one.session_id for one in plain]
        assert sessions._remembered == sum(one.rank[1] for one in plain)


class Drawn:
    """Numbers that a test says."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.asked = list(numbers), list[tuple[int, ...]]()

    def randrange(self, *bounds: int) -> int:
        self.asked.append(bounds)
        return self.numbers.pop(0)


def test_each_session_has_an_id_of_its_own() -> None:
    drawn = Drawn(5, 5, 5, 8)
    sessions = FetchSessions(9, cast("Any", drawn))
    assert [planned(sessions, request(0, 0, (0, 0))).session_id for _ in range(2)] == [5, 8]
    assert set(drawn.asked) == {(1, 1 << 31)}
    assert len(sessions.tasks) == 0


def test_what_a_request_names_is_read_once() -> None:
    sessions, frame = FetchSessions(9, Random(1)), request(0, 0, (0, 5))
    known = wanted_in(frame, uses_topic_ids=False)
    assert at_once(sessions.plan(frame, known, uses_topic_ids=False, now_ms=0)).wanted is known
    plan = at_once(sessions.plan(frame, None, uses_topic_ids=False, now_ms=0))
    assert [one.request.fetch_offset for one in plan.wanted.values()] == [5]


def test_a_topic_is_forgotten_by_what_it_was_named_by() -> None:
    sessions = FetchSessions(9, Random(1))
    plan = planned(sessions, request(0, 0, (0, 1), (1, 1), topic_id=ID), uses_topic_ids=True)
    plan = planned(sessions, request(plan.session_id, 1, forget=[0], topic_id=ID), uses_topic_ids=True)
    assert list(plan.wanted) == [(ID, 1)]
