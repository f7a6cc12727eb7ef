from uuid import UUID

from tests.unit.raft.replicas import quorum, voter

from penstock.raft.progress import ReplicaTable
from penstock.raft.settings import MAX_OBSERVERS, NEVER, OBSERVER_SESSION_MS
from penstock.raft.voters import ReplicaKey

ME = voter(1).key


def table(ends: dict[int, int]) -> ReplicaTable:
    found = ReplicaTable(0)
    for node_id, end in ends.items():
        found.heard(voter(node_id).key, quorum(1, 2, 3), 10 * node_id).fetched(end, 100, 10 * node_id)
    return found


def test_what_a_majority_has() -> None:
    assert table({2: 50, 3: 40}).majority_end_offset(quorum(1, 2, 3), ME, 100) == 50
    assert table({2: 50}).majority_end_offset(quorum(1, 2, 3), ME, 100) == 50
    assert table({}).majority_end_offset(quorum(1, 2, 3), ME, 100) == -1
    assert table({2: 50, 3: 40}).majority_end_offset(quorum(2, 3), ME, 100) == 40, "no voter, no count"
    assert table({2: 50, 9: 99}).majority_end_offset(quorum(1, 2, 3), ME, 10) == 10, "observers do not count"


def test_since_when_a_majority_is_silent() -> None:
    assert table({2: 1, 3: 1}).majority_heard_ms(quorum(1, 2, 3), ME) == 30
    assert table({2: 1}).majority_heard_ms(quorum(1, 2, 3, 4, 5), ME) == 0
    assert table({2: 1, 3: 1}).majority_heard_ms(quorum(2, 3), ME) == 20
    assert table({}).majority_heard_ms(quorum(1), ME) == NEVER


def test_successors_by_what_they_have() -> None:
    assert [key.id for key in table({3: 50, 2: 40}).by_end_offset(quorum(1, 2, 3, 4), ME)] == [3, 2, 4]


def test_caught_up_is_who_had_all_that_there_was_when_it_asked_before() -> None:
    progress = ReplicaTable(0).heard(voter(2).key, quorum(1, 2), 0)
    progress.fetched(50, 100, 10)
    assert progress.caught_up_ms == -1
    progress.fetched(100, 130, 20)
    assert progress.caught_up_ms == 10
    progress.fetched(130, 130, 30)
    assert progress.caught_up_ms == 30
    progress.fetched(130, 140, 40)
    assert progress.caught_up_ms == 30


def test_observers_are_forgotten_when_silent_or_too_many() -> None:
    found = ReplicaTable(0)
    voters = quorum(1, 2)
    found.heard(voter(2).key, voters, 0)
    found.heard(voter(8).key, voters, 0)
    found.heard(voter(9).key, voters, OBSERVER_SESSION_MS + 1)
    assert [seen.key.id for seen in found.observers(voters)] == [9]
    assert found.find(voter(2).key) is not None
    for node_id in range(100, 100 + MAX_OBSERVERS + 5):
        found.heard(ReplicaKey(node_id), voters, OBSERVER_SESSION_MS + 2)
    observers = found.observers(voters)
    assert len(observers) <= MAX_OBSERVERS
    assert observers[-1].key.id == 100 + MAX_OBSERVERS + 4, "the newest stays"
    assert found.find(voter(9).key) is None


def test_who_has_less_than_there_was_when_it_asked_before_is_not_caught_up() -> None:
    progress = ReplicaTable(0).heard(voter(2).key, quorum(1, 2), 0)
    progress.fetched(50, 100, 10)
    progress.fetched(60, 130, 20)
    assert progress.caught_up_ms == -1


def test_a_voter_without_a_directory_is_whoever_fetches_in_its_name() -> None:
    found = ReplicaTable(0)
    found.heard(ReplicaKey(2, UUID(int=5)), quorum(1, 2), 10).fetched(50, 100, 10)
    progress = found.find(ReplicaKey(2))
    assert progress is not None
    assert progress.end_offset == 50
    assert found.find(ReplicaKey(2, UUID(int=6))) is None
