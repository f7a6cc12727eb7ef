"""Which sessions at servers of Spark Connect a task knows of; pure."""

import json

from penstock.pipeline.jobs.server_sessions import MOST_KEPT, Changes, Position, ServerSession, ServerSessions

OLD, NEW = ServerSession("sc://a:1", "old", 3), ServerSession("sc://a:1", "new", 4)


class Stored:
    """What is stored of a job, as a topic has it: the last offset of each partition."""

    def __init__(self) -> None:
        self._offsets: dict[str, tuple[Position, Position]] = {}

    def write(self, changes: Changes) -> None:
        for partition, offset in changes:
            self._offsets.pop(json.dumps(partition), None)
            if offset is not None:
                self._offsets[json.dumps(partition)] = partition, offset

    def sessions(self, *sinks: str) -> ServerSessions:
        return ServerSessions(self._offsets.values(), sinks)

    def begin(self, one: ServerSession, *sinks: str) -> None:
        self.write(self.sessions(*sinks).begin(one))


def test_a_session_is_known_from_before_it_is_used_until_it_is_closed() -> None:
    stored = Stored()
    assert stored.sessions("one", "two").known == []
    stored.begin(OLD, "one", "two")
    second = stored.sessions("one", "two")
    assert second.known == [OLD]
    stored.write(second.forget(["another"]))
    stored.write(second.begin(NEW))
    assert stored.sessions("one", "two").known == [OLD, NEW]
    stored.write(second.forget(["old"]))
    assert second.known == [NEW]
    assert stored.sessions("one", "two").known == [NEW]


def test_sinks_that_move_between_tasks_take_their_sessions_along() -> None:
    stored = Stored()
    stored.begin(OLD, "one", "two")
    alone = stored.sessions("one")
    stored.write(alone.forget(["old"]))
    stored.write(alone.begin(NEW))
    assert stored.sessions("two").known == [OLD], "the other task closes it as well, and no newer one"
    assert stored.sessions("one").known == [NEW]


def test_a_worker_that_stood_still_while_it_wrote_takes_nothing_away() -> None:
    stored = Stored()
    stored.begin(ServerSession("sc://a:1", "first", 2), "one")
    sleeper = stored.sessions("one")
    late = sleeper.forget(["first"]) + sleeper.begin(OLD)
    stored.write(stored.sessions("one").forget(["first"]))
    stored.begin(NEW, "one")
    stored.write(late)
    assert set(stored.sessions("one").known) == {OLD, NEW}


def test_a_later_generation_is_seen() -> None:
    sessions = ServerSessions([], ["one"])
    sessions.begin(NEW)
    assert sessions.newer_than(3) == NEW
    assert sessions.newer_than(4) is None
    assert sessions.newer_than(0) is None, "a worker that stands alone has no generations"


def test_what_nobody_reaches_is_kept_for_a_while() -> None:
    stored = Stored()
    for number in range(MOST_KEPT + 3):
        stored.begin(ServerSession("sc://gone:1", str(number), number), "one")
    known = stored.sessions("one").known
    assert len(known) == MOST_KEPT
    assert known[-1].session == str(MOST_KEPT + 2)


def test_what_is_stored_names_the_sink_and_the_session() -> None:
    sessions = ServerSessions([({"sink": "one"}, {"something": "else"}), ({"a": 1}, {"b": 2})], ["one"])
    assert sessions.known == []
    assert sessions.begin(OLD) == [({"sink": "one", "session": "old"}, {"server": "sc://a:1", "generation": 3})]
