"""Where a replica believes that the others listen: what it learns of whom, and from whom it takes it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.client.errors import ClusterUnreachableError
from penstock.client.settings import ClientSettings
from penstock.node.quorum.peers import Lane, Peers, Place
from penstock.protocol.address import Address
from penstock.raft import requests as ask
from penstock.raft.effects import ANY_SERVER
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter

ME, PEER = ReplicaKey(1), ReplicaKey(2)
OWN, OTHER = Endpoint("CONTROLLER", "own", 1), Endpoint("OTHER", "other", 2)
QUORUM = Quorum.of([Voter(ME), Voter(PEER, (OTHER, OWN)), Voter(ReplicaKey(3), (OTHER,)), Voter(ReplicaKey(4), ())])


def peers(*bootstrap: Address, listens_at: Callable[[int], Endpoint | None] | None = None) -> Peers:
    place = Place(cluster_id="c", listeners=(Endpoint("CONTROLLER", "me", 9),), bootstrap=bootstrap, node_id=ME.id)
    made = Peers(ClientSettings(random=Random(1)), place, listens_at=listens_at)

    def nobody(*_: Any) -> None: ...

    made.start(lambda: QUORUM, nobody, nobody)
    return made


def known(one: Peers, node_id: int, listener: str | None = None) -> tuple[str, int] | None:
    found = one.endpoint_of(node_id, listener)
    return None if found is None else (found.host, found.port)


@pytest.mark.parametrize(
    ("node_id", "endpoints", "learned"),
    [
        (5, (Endpoint("CONTROLLER", "h", 7),), ("h", 7)),
        (0, (Endpoint("CONTROLLER", "h", 7),), ("h", 7)),
        (5, (OTHER, Endpoint("CONTROLLER", "h", 7)), ("h", 7)),
        (5, (OTHER,), ("other", 2)),
        (5, (), None),
        (5, (Endpoint("CONTROLLER", "", 7),), None),
        (-1, (Endpoint("CONTROLLER", "h", 7),), None),
        (1, (Endpoint("CONTROLLER", "h", 7),), None),
    ],
    ids=range(8),
)
def test_what_is_learned(node_id: int, endpoints: tuple[Endpoint, ...], learned: tuple[str, int] | None) -> None:
    one = peers()
    one.learn(node_id, endpoints)
    assert known(one, node_id) == learned
    if learned is not None:
        assert one.endpoint_of(node_id) == Endpoint("CONTROLLER", *learned)


@pytest.mark.parametrize(
    ("node_id", "listener", "found"),
    [
        (2, None, ("own", 1)),
        (2, "CONTROLLER", ("own", 1)),
        (2, "OTHER", ("other", 2)),
        (2, "NONE", None),
        (3, "OTHER", ("other", 2)),
        (4, None, None),
        (4, "OTHER", None),
        (9, None, None),
        (9, "OTHER", None),
    ],
)
def test_another_listener_is_known_by_the_log_alone(
    node_id: int, listener: str | None, found: tuple[str, int] | None
) -> None:
    one = peers()
    assert known(one, node_id, listener) == found
    one.learn(node_id, (Endpoint("OTHER", "learned", 3),))
    is_own = listener in (None, "CONTROLLER")
    assert known(one, node_id, listener) == (("learned", 3) if is_own else found)


def test_who_is_told_of_all_nodes_believes_nothing_else() -> None:
    all_nodes = {2: Endpoint("X", "there", 4)}
    one = peers(listens_at=all_nodes.get)
    one.learn(2, (Endpoint("CONTROLLER", "h", 7),))
    one.learn(3, (Endpoint("CONTROLLER", "h", 7),))
    for listener in (None, "CONTROLLER", "OTHER", "X"):
        assert known(one, 2, listener) == ("there", 4)
        assert known(one, 3, listener) is None


VOTE = ask.Vote(3, ME, PEER, 2, 10)
FETCH = ask.Fetch(3, ME, 10, 2, 9, 500, 1 << 20)


def test_after_a_failure_another_address_is_tried() -> None:
    one = peers()
    one.learn(2, (Endpoint("CONTROLLER", "learned", 3),))
    link = one._link(2, VOTE)
    tried = []
    for failures in range(4):
        link.failures = failures
        tried.append(one._where(link, VOTE).host)
    assert tried == ["learned", "own", "learned", "own"]
    with pytest.raises(ClusterUnreachableError, match="nobody has said"):
        one._where(one._link(9, VOTE), VOTE)


def test_each_kind_of_request_has_its_own_way() -> None:
    one = peers(Address("a", 1), Address("b", 2))
    assert one._link(2, FETCH) is one._links[Lane.PULL].get(2)
    assert one._link(2, VOTE) is one._links[Lane.TALK].get(2)
    assert one._links[Lane.CHANGE].get(2) is None
    assert [one._link(ANY_SERVER, FETCH).place for _ in range(3)] == [Address("a", 1), Address("b", 2), Address("a", 1)]
    assert one._link(2, FETCH).place == 2
    link = one._link(ANY_SERVER, FETCH)
    assert one._where(link, FETCH) == link.place
    assert peers()._link(ANY_SERVER, FETCH).place == ANY_SERVER


def test_who_fails_a_fetch_is_not_heard() -> None:
    one = peers()
    assert one.hears(2)
    one._link(2, VOTE).failures = 1
    assert one.hears(2), "it is by fetches that a leader is heard"
    one._link(2, FETCH)
    assert one.hears(2)
    one._link(2, FETCH).failures = 1
    assert not one.hears(2)
    assert one.hears(3)
