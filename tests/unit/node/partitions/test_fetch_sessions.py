"""Fetch sessions (KIP-227): full, incremental, errors, eviction."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from penstock.node.partitions import fetch_sessions
from penstock.node.partitions.fetch_sessions import CHANGES_A_STEP, EVICTION_MS, FetchPlan, FetchSessions, wanted_in
from penstock.node.serving.slices import at_once
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import FetchFrame, FetchPartition, FetchTopic, ForgottenTopic
from penstock.protocol.uuids import ZERO_UUID

ID = UUID(int=7)


def request(
    session_id: int,
    epoch: int,
    *partitions: tuple[int, int],
    forget: list[int] | None = None,
    topic_id: UUID = ZERO_UUID,
) -> FetchFrame:
    """A request for (index, offset) pairs of topic "t"."""
    wanted = [FetchPartition(index=index, fetch_offset=offset, max_bytes=1000) for index, offset in partitions]
    name = "" if topic_id != ZERO_UUID else "t"
    return FetchFrame(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(name=name, topic_id=topic_id, partitions=wanted)] if wanted else [],
        forgotten_topics=[ForgottenTopic(name=name, topic_id=topic_id, partitions=forget)] if forget else [],
    )


def planned(sessions: FetchSessions, frame: FetchFrame, *, uses_topic_ids: bool = False, now_ms: int = 0) -> FetchPlan:
    asked = wanted_in(frame, uses_topic_ids=uses_topic_ids)
    return at_once(sessions.plan(frame, asked, uses_topic_ids=uses_topic_ids, now_ms=now_ms))


def offsets(sessions: FetchSessions, frame: FetchFrame, now_ms: int = 0) -> tuple[int, dict[int, int]]:
    plan = planned(sessions, frame, now_ms=now_ms)
    return plan.session_id, {index: wanted.request.fetch_offset for (_, index), wanted in plan.wanted.items()}


def test_without_a_session_nothing_is_remembered() -> None:
    sessions = FetchSessions(10, Random(1))
    assert offsets(sessions, request(0, -1, (0, 5))) == (0, {0: 5})
    assert len(sessions) == 0


def test_an_incremental_fetch_names_only_what_changes() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id, wanted = offsets(sessions, request(0, 0, (0, 5), (1, 6), (2, 7)))
    assert session_id > 0
    assert wanted == {0: 5, 1: 6, 2: 7}
    assert offsets(sessions, request(session_id, 1)) == (session_id, {0: 5, 1: 6, 2: 7})
    assert offsets(sessions, request(session_id, 2, (1, 9), (3, 1), forget=[0])) == (session_id, {1: 9, 2: 7, 3: 1})


def test_errors() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id, _ = offsets(sessions, request(0, 0, (0, 5)))
    for frame, uses_topic_ids, code in (
        (request(session_id + 1, 1), False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (request(session_id, 2), False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (request(session_id, 1), True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        with pytest.raises(KafkaError) as raised:
            planned(sessions, frame, uses_topic_ids=uses_topic_ids)
        assert raised.value.code == code
    assert offsets(sessions, request(session_id, 1)) == (session_id, {0: 5})


def test_a_full_fetch_closes_the_session_it_names() -> None:
    sessions = FetchSessions(10, Random(1))
    first, _ = offsets(sessions, request(0, 0, (0, 5)))
    second, _ = offsets(sessions, request(first, 0, (0, 5)))
    assert second not in (0, first)
    assert len(sessions) == 1
    assert offsets(sessions, request(second, -1, (0, 5))) == (0, {0: 5})
    assert len(sessions) == 0


def test_a_session_that_forgets_everything_ends() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id, _ = offsets(sessions, request(0, 0, (0, 5)))
    assert offsets(sessions, request(session_id, 1, forget=[0])) == (0, {})
    assert len(sessions) == 0


def test_when_the_table_is_full_the_longest_unused_session_goes_once_it_is_old() -> None:
    sessions = FetchSessions(2, Random(1))
    first, _ = offsets(sessions, request(0, 0, (0, 1)), now_ms=0)
    second, _ = offsets(sessions, request(0, 0, (0, 2)), now_ms=0)
    assert offsets(sessions, request(0, 0, (0, 3)), now_ms=EVICTION_MS - 1) == (0, {0: 3})
    assert offsets(sessions, request(first, 1), now_ms=EVICTION_MS)[0] == first
    third, _ = offsets(sessions, request(0, 0, (0, 3)), now_ms=EVICTION_MS)
    assert third != 0
    with pytest.raises(KafkaError, match="FETCH_SESSION_ID_NOT_FOUND"):
        offsets(sessions, request(second, 1), now_ms=EVICTION_MS)
    assert offsets(sessions, request(first, 2), now_ms=EVICTION_MS)[0] == first


def test_the_epoch_goes_round_and_skips_zero() -> None:
    sessions = FetchSessions(2, Random(1))
    session_id, _ = offsets(sessions, request(0, 0, (0, 1)))
    planned(sessions, request(session_id, 1)).session.epoch = 2**31 - 1  # type: ignore[union-attr]
    assert offsets(sessions, request(session_id, 2**31 - 1))[0] == session_id
    assert offsets(sessions, request(session_id, 1))[0] == session_id


def test_topic_ids_are_keys_of_their_own() -> None:
    sessions = FetchSessions(2, Random(1))
    plan = planned(sessions, request(0, 0, (0, 1), topic_id=ID), uses_topic_ids=True)
    assert list(plan.wanted) == [(ID, 0)]
    plan = planned(sessions, request(plan.session_id, 1, (0, 4), topic_id=ID), uses_topic_ids=True)
    assert [wanted.request.fetch_offset for wanted in plan.wanted.values()] == [4]


def test_partitions_that_had_records_come_last() -> None:
    sessions = FetchSessions(2, Random(1))
    plan = planned(sessions, request(0, 0, (0, 1), (1, 1), (2, 1)))
    assert plan.session is not None
    plan.session.to_the_back([("t", 0)])
    assert list(offsets(sessions, request(plan.session_id, 1))[1]) == [1, 2, 0]
    plan.session.to_the_back([("t", 2), ("t", 1)])
    assert list(offsets(sessions, request(plan.session_id, 2))[1]) == [0, 2, 1]


def test_all_sessions_together_remember_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 5)
    sessions = FetchSessions(10, Random(1))
    first, _ = offsets(sessions, request(0, 0, (0, 0), (1, 0), (2, 0)))
    assert offsets(sessions, request(0, 0, (0, 0), (1, 0), (2, 0)))[0] == 0, "it is fetched without a session"
    second, _ = offsets(sessions, request(0, 0, (0, 0), (1, 0)))
    assert second > 0
    with pytest.raises(KafkaError) as raised:
        offsets(sessions, request(first, 1, (7, 0)))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1


def test_many_changes_are_made_in_steps_and_the_session_is_not_asked_meanwhile() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id, _ = offsets(sessions, request(0, 0, (0, 0)))
    many = request(session_id, 1, *((index, 0) for index in range(1, 3 * CHANGES_A_STEP + 1)), forget=[0])
    steps = sessions.plan(many, None, uses_topic_ids=False, now_ms=0)
    for _ in range(3):
        assert next(steps) is None
        with pytest.raises(KafkaError, match="INVALID_FETCH_SESSION_EPOCH"):
            offsets(sessions, request(session_id, 1))
    assert len(at_once(steps).wanted) == 3 * CHANGES_A_STEP
    assert len(offsets(sessions, request(session_id, 2))[1]) == 3 * CHANGES_A_STEP


def test_a_session_that_is_closed_between_two_steps_is_not_there_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 3 * CHANGES_A_STEP)
    sessions = FetchSessions(10, Random(1))
    for _ in range(2):
        session_id, _ = offsets(sessions, request(0, 0, (0, 0)))
        many = request(session_id, 1, *((index, 0) for index in range(1, 2 * CHANGES_A_STEP)))
        steps = sessions.plan(many, None, uses_topic_ids=False, now_ms=0)
        next(steps)
        sessions.close(session_id)
        with pytest.raises(KafkaError, match="FETCH_SESSION_ID_NOT_FOUND"):
            next(steps)
    assert opened(sessions, 3 * CHANGES_A_STEP) > 0, "nothing is remembered of those that were closed"


def opened(sessions: FetchSessions, partitions: int, *, replica: int = -1, now_ms: int = 0) -> int:
    """The id of a new session about so many partitions, 0 if there is no room."""
    frame = request(0, 0, *((index, 0) for index in range(partitions)))
    frame.replica_id = replica
    return planned(sessions, frame, now_ms=now_ms).session_id


def is_open(sessions: FetchSessions, session_id: int, now_ms: int, epoch: int = 1) -> bool:
    try:
        planned(sessions, request(session_id, epoch), now_ms=now_ms)
    except KafkaError:
        return False
    return True


FOLLOWER = 3


def test_a_follower_takes_the_place_of_the_smallest_consumer_at_once() -> None:
    sessions = FetchSessions(2, Random(1))
    large, small = opened(sessions, 9), opened(sessions, 5)
    follower = opened(sessions, 1, replica=FOLLOWER, now_ms=1)
    assert follower > 0
    assert [is_open(sessions, session_id, 1) for session_id in (large, small, follower)] == [True, False, True]


def test_a_consumer_never_takes_the_place_of_a_follower_that_fetches() -> None:
    sessions = FetchSessions(1, Random(1))
    follower = opened(sessions, 1, replica=FOLLOWER)
    later = 10 * EVICTION_MS
    assert is_open(sessions, follower, later)
    assert opened(sessions, 99, now_ms=later + 1) == 0
    assert is_open(sessions, follower, later + 2, epoch=2)


def test_a_follower_takes_the_place_of_another_only_when_that_is_old_and_smaller() -> None:
    sessions = FetchSessions(1, Random(1))
    first = opened(sessions, 5, replica=FOLLOWER)
    assert opened(sessions, 9, replica=FOLLOWER, now_ms=1) == 0
    assert is_open(sessions, first, EVICTION_MS + 1)
    assert opened(sessions, 5, replica=FOLLOWER, now_ms=EVICTION_MS + 1) == 0
    assert opened(sessions, 6, replica=FOLLOWER, now_ms=EVICTION_MS + 1) > 0
    assert not is_open(sessions, first, EVICTION_MS + 1, epoch=2)


def test_a_larger_consumer_takes_the_place_of_an_old_one() -> None:
    sessions = FetchSessions(1, Random(1))
    first = opened(sessions, 5)
    assert opened(sessions, 9, now_ms=1) == 0
    assert is_open(sessions, first, EVICTION_MS + 1)
    assert opened(sessions, 6, now_ms=EVICTION_MS + 1) > 0


def test_consumers_make_room_for_the_partitions_of_a_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 10)
    sessions = FetchSessions(9, Random(1))
    kept, *_ = (opened(sessions, count) for count in (4, 3, 3))
    assert opened(sessions, 1) == 0
    assert opened(sessions, 6, replica=FOLLOWER) > 0
    assert len(sessions) == 2
    assert is_open(sessions, kept, 1)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(lambda session: request(session, -1), id="closed"),
        pytest.param(lambda session: request(session, 1, forget=[0, 1, 2]), id="forgotten"),
    ],
)
def test_partitions_that_are_gone_make_room(gone: Callable[[int], FetchFrame], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 5)
    sessions = FetchSessions(10, Random(1))
    first, _ = offsets(sessions, request(0, 0, (0, 0), (1, 0), (2, 0)))
    planned(sessions, gone(first))
    assert len(sessions) == 0
    assert offsets(sessions, request(0, 0, (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)))[0] > 0


def test_partitions_that_are_added_take_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 5)
    sessions = FetchSessions(10, Random(1))
    first, _ = offsets(sessions, request(0, 0, (0, 0)))
    offsets(sessions, request(first, 1, (0, 7), (1, 0), (2, 0), (3, 0)))
    assert offsets(sessions, request(0, 0, (0, 0), (1, 0)))[0] == 0
    assert offsets(sessions, request(0, 0, (0, 0)))[0] > 0
