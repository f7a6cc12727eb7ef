"""Who gets a vote in a storage group, and who loses it."""

from collections.abc import Collection
from uuid import UUID

from penstock.node.storage_groups.voters import caught_up, next_change
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.requests import AddVoter, RemoveVoter
from penstock.raft.voters import Quorum, ReplicaKey, Voter

NOW_MS = 50_000
WITHIN_MS = 10_000
LEADER = 1


def key(node_id: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=100 * node_id + disk))


def seen(node_id: int, disk: int = 1, *, fetched_ms: int = NOW_MS, caught_up_ms: int = NOW_MS) -> ReplicaDescription:
    """A replica as the leader sees it."""
    return ReplicaDescription(key(node_id, disk), 7, fetched_ms, caught_up_ms)


def change(
    voters: Collection[ReplicaDescription],
    observers: Collection[ReplicaDescription] = (),
    wanted: Collection[int] = (1, 2, 3),
    since_ms: int = 0,
) -> AddVoter | RemoveVoter | None:
    quorum = Quorum.of(Voter(one.key) for one in voters)
    description = QuorumDescription(LEADER, 4, 7, tuple(voters), tuple(observers), quorum)
    return next_change(description, wanted, WITHIN_MS, since_ms)


THREE = seen(1), seen(2), seen(3)


def test_nothing_is_done_where_those_vote_who_are_wanted() -> None:
    assert change(THREE) is None
    assert change(THREE, [seen(4)]) is None, "nobody wants node 4"


def test_a_replica_gets_a_vote_when_it_has_caught_up() -> None:
    for behind in (seen(4, caught_up_ms=-1), seen(4, caught_up_ms=NOW_MS - WITHIN_MS - 1)):
        assert change(THREE, [behind], [1, 2, 3, 4]) is None
    assert change(THREE, [seen(4)], [1, 2, 3, 4]) == AddVoter(key(4))


def test_a_replica_that_was_heard_before_it_was_wanted_may_be_gone() -> None:
    """It has left the group, and was deleted: what comes back instead has another name."""
    left = seen(4, fetched_ms=NOW_MS - 1_000, caught_up_ms=NOW_MS - 1_000)
    assert change(THREE, [left], [1, 2, 3, 4], since_ms=NOW_MS - 999) is None
    assert change(THREE, [left], [1, 2, 3, 4], since_ms=NOW_MS - 1_000) == AddVoter(key(4))
    assert change(THREE, [left, seen(4, 2)], [1, 2, 3, 4], since_ms=NOW_MS) == AddVoter(key(4, 2))


def test_another_disk_of_a_node_takes_the_place_of_the_one_it_had() -> None:
    gone = seen(3, fetched_ms=NOW_MS - 5_000, caught_up_ms=NOW_MS - 5_000)
    assert change([seen(1), seen(2), gone], [seen(3, 2)]) == RemoveVoter(key(3))
    assert change([seen(1), seen(2)], [gone, seen(3, 2)]) == AddVoter(key(3, 2))
    assert change([seen(1), seen(2)], [seen(3, 2), gone]) == AddVoter(key(3, 2)), "in whatever order they are told"


def test_a_disk_that_was_seen_before_the_one_that_votes_does_not_replace_it() -> None:
    assert change(THREE, [seen(3, 2, fetched_ms=NOW_MS - 1_000, caught_up_ms=NOW_MS - 1_000)]) is None


def test_who_is_not_wanted_votes_until_all_vote_who_are() -> None:
    assert change(THREE, [seen(4, caught_up_ms=-1)], [1, 2, 4]) is None
    assert change([*THREE, seen(4)], (), [1, 2, 4]) == RemoveVoter(key(3))


def test_the_leader_gives_up_its_own_vote_last() -> None:
    assert change([*THREE, seen(4), seen(5)], (), [3, 4, 5]) == RemoveVoter(key(2))
    assert change([seen(1), seen(3), seen(4), seen(5)], (), [3, 4, 5]) == RemoveVoter(key(1))
    assert change([seen(3), seen(4), seen(5)], [seen(6)], [3, 4, 5, 6]) is None, "it has gone already"


def in_sync(*others: ReplicaDescription, live: Collection[int] = (2, 3), led_since_ms: int | None = None) -> list[int]:
    voters = seen(LEADER), *others
    quorum = QuorumDescription(LEADER, 4, 7, voters, (), Quorum.of(Voter(one.key) for one in voters))
    return caught_up(quorum, WITHIN_MS, live, {} if led_since_ms is None else {2: led_since_ms})


def test_those_have_caught_up_that_had_all_a_moment_ago_and_live() -> None:
    late = seen(3, caught_up_ms=NOW_MS - WITHIN_MS - 1)
    assert in_sync(seen(2, caught_up_ms=NOW_MS - WITHIN_MS), late) == [1, 2]
    assert in_sync(seen(2), seen(3), live=[3]) == [1, 3]
    assert in_sync(seen(2, caught_up_ms=-1), seen(3, caught_up_ms=-1)) == [1]


def test_a_new_leader_takes_those_for_caught_up_that_were_so_before_until_they_have_had_time() -> None:
    unheard = seen(2, caught_up_ms=-1), seen(3, caught_up_ms=-1)
    assert in_sync(*unheard, led_since_ms=NOW_MS - WITHIN_MS) == [1, 2]
    assert in_sync(*unheard, led_since_ms=NOW_MS - WITHIN_MS - 1) == [1]
    assert in_sync(*unheard, live=[3], led_since_ms=NOW_MS) == [1]
    assert in_sync(seen(2), seen(3), led_since_ms=NOW_MS - WITHIN_MS - 1) == [1, 2, 3], "it is known better"


def test_where_the_leader_has_no_vote_any_more_those_have_caught_up_that_ever_did() -> None:
    voters = seen(2, caught_up_ms=0), seen(3, caught_up_ms=-1)
    quorum = QuorumDescription(LEADER, 4, 7, voters, (), Quorum.of(Voter(one.key) for one in voters))
    assert caught_up(quorum, WITHIN_MS, [2, 3], {}) == [2]


def test_one_who_has_not_caught_up_keeps_no_other_from_a_vote() -> None:
    assert change(THREE, [seen(4, caught_up_ms=-1), seen(5)], [1, 2, 3, 4, 5]) == AddVoter(key(5))


def test_who_had_all_in_the_first_moment_has_caught_up_and_who_never_had_it_has_not() -> None:
    voters = [seen(one, caught_up_ms=WITHIN_MS // 2) for one in (1, 2, 3)]
    assert change(voters, [seen(4, caught_up_ms=0)], [1, 2, 3, 4]) == AddVoter(key(4))
    assert change(voters, [seen(4, caught_up_ms=-1)], [1, 2, 3, 4]) is None
