"""What `penstock groups` tells of the history of a group."""

from typing import Any

from penstock.cli.groups.history import Follower, explanation
from penstock.client.admin.group_history import (
    AwaitedMember,
    Change,
    EpochDescription,
    GroupHistory,
    MemberTime,
    Move,
    explained,
    why,
)
from penstock.client.values import TopicPartition

FIRST, SECOND = TopicPartition("a", 0), TopicPartition("a", 1)


def epoch(number: int, *changes: tuple[str, str], moves: list[Move] | None = None, **fields: Any) -> EpochDescription:
    named = [Change(what, member_id, None) for what, member_id in changes]
    told: dict[str, Any] = {"formed_ms": 1_000, "ended_ms": None, "members": 2, "cause": "", "unnamed": 0, "moved": 1}
    told |= {"times": [], **fields}
    return EpochDescription(
        number=number, kind="consumer", epoch=number + 1, started_ms=1_000, changes=named, moves=moves or [], **told
    )


def history(*epochs: EpochDescription, awaited: list[AwaitedMember] | None = None) -> GroupHistory:
    return GroupHistory("g", 5_000, list(epochs), awaited or [])


GIVES_UP = AwaitedMember("m1", "to give up partitions", 2_000, 9_000, [SECOND])


def test_why_there_is_an_epoch_in_a_few_words() -> None:
    joined = [("joined", f"m{number}") for number in range(5)]
    assert why(epoch(1, *joined, ("left", "old"))) == "m0, m1, m2 and 2 more joined; old left"
    assert why(epoch(1, ("topics", ""), unnamed=7)) == "topics have changed; 7 more"
    assert why(epoch(1, cause="leader m1 joined again")) == "leader m1 joined again"


def test_why_a_partition_is_where_it_is_and_who_blocks_it() -> None:
    moves = [Move(FIRST, "", "m1"), Move(SECOND, "", "m1")]
    told = history(
        epoch(1, ("joined", "m1"), moves=moves),
        epoch(2, ("joined", "m2"), moves=[Move(SECOND, "m1", "m2")]),
        awaited=[GIVES_UP, AwaitedMember("m9", "to send a heartbeat", 0, None, [])],
    )
    assert explanation(told, explained(told, "m1", FIRST)) == [
        "a-0 is with m1.",
        "  It went from nobody to m1 in epoch 2, 1970-01-01T00:00:01+00:00:",
        "  m1 joined",
    ]
    assert explanation(told, explained(told, "m1", SECOND)) == [
        "a-1 is with m1.",
        "  It went from m1 to m2 in epoch 3, 1970-01-01T00:00:01+00:00:",
        "  m2 joined",
        "  m2 has not got it yet.",
        "  Waits for m1 to give up partitions, for 3000 ms; it is out in 4000 ms.",
    ]
    other = TopicPartition("a", 2)
    assert explanation(told, explained(told, None, other)) == [
        "a-2 is with nobody.",
        "  It has not moved in any of the epochs that are told of.",
    ]


def test_a_rebalance_of_the_classic_protocol_blocks_every_partition() -> None:
    told = history(awaited=[AwaitedMember("m1", "to join again", 4_000, None, [])])
    assert [one.member_id for one in explained(told, "m1", FIRST).blocked_by] == ["m1"]


def test_each_news_is_told_once() -> None:
    begun = epoch(2, ("joined", "m2"))
    follower = Follower(history(epoch(1, ended_ms=1_000)))
    assert follower.news(history(epoch(1, ended_ms=1_000))) == []
    assert follower.news(history(begun, awaited=[GIVES_UP])) == [
        "g: epoch 3 begins: m2 joined",
        "g: Waits for m1 to give up partitions, for 3000 ms; it is out in 4000 ms.",
    ]
    assert follower.news(history(begun, awaited=[GIVES_UP])) == []
    ended = epoch(2, ("joined", "m2"), ended_ms=1_700, times=[MemberTime("m1", 700, 600)])
    assert follower.news(history(ended)) == [
        "g: epoch 3 ended after 700 ms with 2 members, 1 partitions moved, m1 took 600 ms"
    ]
    assert follower.news(history(ended)) == []


def test_an_epoch_that_was_under_way_when_one_began_to_follow_is_told_when_it_ends() -> None:
    follower = Follower(history(epoch(1)))
    assert follower.news(history(epoch(1, ended_ms=2_000))) == [
        "g: epoch 2 ended after 1000 ms with 2 members, 1 partitions moved"
    ]
