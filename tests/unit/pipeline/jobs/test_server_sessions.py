"""Which sessions at servers of Spark Connect a task knows of; pure."""

from penstock.pipeline.jobs.server_sessions import MOST_KEPT, Position, ServerSession, ServerSessions, partition_of

OLD, NEW = ServerSession("sc://a:1", "old", 3), ServerSession("sc://a:1", "new", 4)


def stored(sessions: ServerSessions) -> dict[str, Position | None]:
    return {str(partition["sink"]): position for partition, position in sessions.positions()}


def test_a_session_is_known_from_before_it_is_used_until_it_is_closed() -> None:
    first = ServerSessions({"one": None, "two": None})
    assert first.known == []
    first.begin(OLD)
    second = ServerSessions(stored(first))
    assert second.known == [OLD]
    second.forget(["another"])
    second.begin(NEW)
    assert ServerSessions(stored(second)).known == [OLD, NEW]
    second.forget(["old"])
    assert ServerSessions(stored(second)).known == [NEW]


def test_sinks_that_move_between_tasks_take_their_sessions_along() -> None:
    both = ServerSessions({"one": None, "two": None})
    both.begin(OLD)
    position = stored(both)
    alone = ServerSessions({"one": position["one"]})
    alone.forget(["old"])
    alone.begin(NEW)
    assert ServerSessions({"two": position["two"]}).known == [OLD], "the other task closes it as well, and no newer one"


def test_a_later_generation_is_seen() -> None:
    sessions = ServerSessions({"one": None})
    sessions.begin(NEW)
    assert sessions.newer_than(3) == NEW
    assert sessions.newer_than(4) is None
    assert sessions.newer_than(0) is None, "a worker that stands alone has no generations"


def test_what_nobody_reaches_is_kept_for_a_while() -> None:
    sessions = ServerSessions({"one": None})
    for number in range(MOST_KEPT + 3):
        sessions.begin(ServerSession("sc://gone:1", str(number), number))
    assert len(sessions.known) == MOST_KEPT
    assert sessions.known[-1].session == str(MOST_KEPT + 2)


def test_what_is_stored_names_the_sink() -> None:
    sessions = ServerSessions({"one": {"something": "else"}})
    sessions.begin(OLD)
    assert sessions.positions() == [(partition_of("one"), {"sessions": [["sc://a:1", "old", 3]]})]
