"""What a follower names in its requests within a fetch session."""

from penstock.protocol.requests.following import Key, Position
from penstock.replication.fetch_session import FIRST_EPOCH, LAST_EPOCH, NO_SESSION, FollowerSession

A: Key = (b"t" * 16, 0)
B: Key = (b"t" * 16, 1)


def at(offset: int) -> Position:
    return Position(offset, 0, 3, 2)


def opened(*keys: Key) -> FollowerSession:
    """A session 7 whose first request was answered."""
    session = FollowerSession()
    for key in keys:
        session.want(key, at(0))
    session.next()
    session.answered(7)
    return session


def test_the_first_request_opens_a_session_and_names_everything() -> None:
    session = FollowerSession()
    session.want(A, at(5))
    session.want(B, at(6))
    asked = session.next()
    assert (asked.session_id, asked.epoch) == (0, 0)
    assert list(asked.positions) == [(A, at(5)), (B, at(6))]
    assert session.told(A) == at(5)


def test_later_requests_name_what_has_changed() -> None:
    session = opened(A, B)
    session.want(B, at(9))
    session.want(A, at(0))
    asked = session.next()
    assert (asked.session_id, asked.epoch, list(asked.positions), list(asked.forgotten)) == (7, 1, [(B, at(9))], [])
    session.answered(7)
    assert session.next()[1:] == (2, [], [])
    assert (session.told(A), session.told(B)) == (at(0), at(9))


def test_what_is_wanted_while_a_request_is_under_way_goes_with_the_next_one() -> None:
    session = opened(A)
    session.next()
    session.want(A, at(4))
    assert session.told(A) == at(0)
    session.answered(7)
    assert list(session.next().positions) == [(A, at(4))]


def test_what_is_forgotten_leaves_the_session_once() -> None:
    session = opened(A, B)
    session.forget(A)
    session.forget(A)
    assert (session.told(A), len(session)) == (None, 1)
    assert list(session.next().forgotten) == [A]
    session.answered(7)
    assert list(session.next().forgotten) == []


def test_what_the_leader_never_heard_of_is_not_taken_out_of_its_session() -> None:
    session = opened(A)
    session.want(B, at(1))
    session.forget(B)
    assert session.next()[2:] == ([], [])


def test_what_is_wanted_again_before_the_leader_heard_otherwise_stays() -> None:
    session = opened(A)
    session.forget(A)
    session.want(A, at(2))
    assert session.next()[2:] == ([(A, at(2))], [])


def test_a_new_session_closes_the_old_one_and_names_everything() -> None:
    session = opened(A, B)
    session.want(A, at(3))
    session.next()
    session.reset()
    assert session.told(A) is None
    asked = session.next()
    assert (asked.session_id, asked.epoch) == (7, 0)
    assert dict(asked.positions) == {A: at(3), B: at(0)}


def test_without_room_for_a_session_each_request_names_everything() -> None:
    session = FollowerSession()
    session.want(A, at(0))
    session.next()
    session.answered(0)
    assert session.next() == (0, 0, [(A, at(0))], ())


def test_the_epoch_begins_again_at_one() -> None:
    session = opened(A)
    session._next_epoch = LAST_EPOCH
    session.next()
    session.answered(7)
    assert session.next().epoch == 1


def test_a_new_session_takes_nothing_out() -> None:
    session = opened(A, B)
    session.forget(A)
    session.reset()
    session.next()
    session.answered(8)
    assert session.next()[2:] == ([], [])


def test_numbers_are_those_of_the_protocol() -> None:
    assert (NO_SESSION, FIRST_EPOCH, LAST_EPOCH) == (0, 0, 2_147_483_647)
