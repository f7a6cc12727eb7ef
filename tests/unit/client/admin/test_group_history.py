"""Why a partition is where it is, and why an epoch of a group began, in words."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.admin.group_history import (
    WORDS,
    AwaitedMember,
    Change,
    EpochDescription,
    GroupHistory,
    Move,
    _known,
    _name,
    explained,
    why,
)
from penstock.client.values import TopicPartition
from penstock.protocol.requests import own_apis

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def epoch(number: int = 1, *moves: Move, **more: Any) -> EpochDescription:
    usual: dict[str, Any] = {
        "number": number,
        "kind": "consumer",
        "epoch": number,
        "started_ms": 1_000,
        "formed_ms": None,
        "ended_ms": None,
        "members": 1,
        "cause": "noted",
        "changes": [],
        "unnamed": 0,
        "moved": None,
        "moves": list(moves),
        "times": [],
    }
    return EpochDescription(**(usual | more))


def awaited(name: str, what: str, *partitions: TopicPartition) -> AwaitedMember:
    return AwaitedMember(name, what, None, None, list(partitions))


# -- where a partition is ---------------------------------------------------------------------------------------------


def test_the_last_move_of_a_partition_says_why_it_is_there() -> None:
    old, new, other = Move(P, "", "a"), Move(P, "a", "b"), Move(Q, "", "c")
    epochs = [epoch(1, old, other), epoch(2, other, new), epoch(3, other)]
    found = explained(GroupHistory("g", 0, epochs, []), "b", P)
    assert (found.partition, found.member_id, found.epoch, found.move) == (P, "b", epochs[1], new)
    unmoved = explained(GroupHistory("g", 0, epochs, []), None, TopicPartition("u", 0))
    assert (unmoved.member_id, unmoved.epoch, unmoved.move, unmoved.blocked_by) == (None, None, None, [])


HEARTBEAT = own_apis.A_HEARTBEAT


@pytest.mark.parametrize(
    ("member", "blocks"),
    [
        (awaited("a", HEARTBEAT, P), True),
        (awaited("a", HEARTBEAT, Q), False),
        (awaited("a", HEARTBEAT), False),
        (awaited("a", "another", P, Q), True),
        (awaited("a", "another", Q), False),
        (awaited("a", "another"), True),
    ],
)
def test_who_is_waited_for_before_it_moves(member: AwaitedMember, *, blocks: bool) -> None:
    """Of whom nothing is named, all stand still for it, unless that is only a heartbeat."""
    assert explained(GroupHistory("g", 0, [], [member]), "b", P).blocked_by == ([member] if blocks else [])


# -- why an epoch began -----------------------------------------------------------------------------------------------


def changes(*of: tuple[str, str]) -> list[Change]:
    return [Change(what, member, None) for what, member in of]


@pytest.mark.parametrize(
    ("named", "unnamed", "words"),
    [
        ([], 0, "noted"),
        ([], 2, "2 more"),
        (changes(("joined", "a")), 0, "a joined"),
        (changes(("joined", "a"), ("left", "b"), ("joined", "c")), 1, "a, c joined; b left; 1 more"),
        (changes(*[("left", name) for name in "abc"]), 0, "a, b, c left"),
        (changes(*[("left", name) for name in "abcde"]), 0, "a, b, c and 2 more left"),
        (changes(("topics", "")), 0, "topics have changed"),
        (changes(("unheard", "a")), 0, "a unheard"),
    ],
)
def test_what_changed_in_words(named: list[Change], unnamed: int, words: str) -> None:
    assert why(epoch(changes=named, unnamed=unnamed)) == words


def test_each_change_has_its_words() -> None:
    assert WORDS.keys() >= {one.name.lower() for one in own_apis.What} - {"other"}
    for one in own_apis.What:
        assert _name(own_apis.What, one.value) == one.name.lower()
    assert _name(own_apis.What, 999) == "other"


@pytest.mark.parametrize(("ended_ms", "took_ms"), [(None, None), (1_000, 0), (1_250, 250)])
def test_how_long_an_epoch_took(ended_ms: int | None, took_ms: int | None) -> None:
    assert epoch(ended_ms=ended_ms).took_ms == took_ms


@pytest.mark.parametrize(("number", "known"), [(-1, None), (0, 0), (7, 7)])
def test_what_is_known_is_not_negative(number: int, known: int | None) -> None:
    assert _known(number) == known
