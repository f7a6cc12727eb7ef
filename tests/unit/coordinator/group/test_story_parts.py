"""What is told of groups, part by part: who came and went and why, what moved from whom, and when nothing is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, Bench

from penstock.client.consumer_protocol import encode_subscription
from penstock.client.values import TopicPartition
from penstock.coordinator.group import epoch_story
from penstock.coordinator.group.classic import story as classic_story
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.history import Rebalance
from penstock.coordinator.group.classic.story import ClassicStory
from penstock.coordinator.group.consumer import records
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.state import ConsumerState, GroupView
from penstock.coordinator.group.consumer.story import ConsumerStory
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.group_log import GroupLog, of_instance, put_moves
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import GroupMetadataValue, GroupRecord, MemberMetadata, Unsettled
from penstock.protocol.requests.own_apis import GroupEpoch, What


def log(were: Mapping[str, str | None] | None = None, notes: Mapping[str, What] | None = None) -> GroupLog:
    made = GroupLog("g", {}, 5)
    made.were_members, made.notes = were or {}, notes or {}
    return made


def value(generation: int, *members: tuple[str, str | None], kind: str = "consumer", **rest: Any) -> GroupMetadataValue:
    """Members with their instances."""
    said = [MemberMetadata(member_id=name, group_instance_id=instance) for name, instance in members]
    return GroupMetadataValue(protocol_type=kind, generation=generation, members=said, **rest)


def who(changes: Any) -> list[str]:
    return [f"{What(one.what).name} {one.member_id} {one.instance_id or ''}".strip() for one in changes]


WORDS = encode_subscription(("words",), [])
ANN, BEN = ("ann", None), ("ben", None)


@pytest.mark.parametrize(
    ("before", "after", "were", "notes", "told"),
    [
        ([], [ANN], {}, {}, ["JOINED ann"]),
        ([ANN], [ANN], {}, {}, []),
        ([ANN], [], {}, {}, ["GONE ann"]),
        ([ANN], [], {}, {"ann": What.LEFT}, ["LEFT ann"]),
        ([ANN], [], {}, {"ben": What.LEFT}, ["GONE ann"]),
        ([ANN], [BEN], {}, {}, ["GONE ann", "JOINED ben"]),
        ([("ann", "i")], [("ben", "i")], {}, {}, ["REPLACED ben i"]),
        ([("ann", "i")], [("ben", "j")], {}, {}, ["GONE ann i", "JOINED ben j"]),
        ([("ann", "i")], [("ann", "i"), ("ben", None)], {}, {}, ["JOINED ben"]),
        ([("ann", "i")], [], {}, {of_instance("i"): What.PUT_OUT}, ["PUT_OUT ann i"]),
        ([("ann", "i")], [], {}, {of_instance("i"): What.PUT_OUT, "ann": What.LEFT}, ["LEFT ann i"]),
        ([ANN], [], {}, {of_instance("None"): What.PUT_OUT, of_instance(""): What.PUT_OUT}, ["GONE ann"]),
        ([], [ANN], {"ann": None, "ben": "i"}, {}, ["GONE ben i"]),
        ([], [("cid", "i")], {"ben": "i"}, {}, ["REPLACED cid i"]),
        # One that was known before under this id has taken nobody's place, though another one has its instance.
        ([("ann", "i"), ("ben", "i")], [("ben", "i")], {}, {}, ["GONE ann i"]),
        ([("ben", "i"), ("ann", "i")], [("ben", "i")], {}, {}, ["GONE ann i"]),
    ],
)  # fmt: skip
def test_who_came_and_went(
    before: list[tuple[str, str | None]],
    after: list[tuple[str, str | None]],
    were: dict[str, str | None],
    notes: dict[str, What],
    told: list[str],
) -> None:
    assert who(classic_story._who(log(were, notes), value(1, *before), value(2, *after))) == told


@pytest.mark.parametrize(
    ("kind", "old", "new", "told"),
    [
        ("consumer", WORDS, WORDS, []),
        ("consumer", WORDS, encode_subscription(("words",), [TopicPartition("words", 1)]), []),
        ("consumer", WORDS, encode_subscription(("others",), []), ["SUBSCRIPTION ann"]),
        ("connect", b"x", b"y", ["METADATA ann"]),
        ("connect", b"x", b"x", []),
        ("connect", WORDS, encode_subscription(("words",), [TopicPartition("words", 1)]), ["METADATA ann"]),
    ],
)
def test_who_says_something_else(kind: str, old: bytes, new: bytes, told: list[str]) -> None:
    before, after = (
        GroupMetadataValue(protocol_type=kind, members=[MemberMetadata(member_id="ann", subscription=said)])
        for said in (old, new)
    )
    assert who(classic_story._who(log(), before, after)) == told


@pytest.mark.parametrize(
    ("last", "before", "after", "is_told"),
    [
        (None, value(1), value(2), False),
        (None, value(2), value(2), True),
        (None, classic_story._NOBODY, value(0), False),
        (None, value(2, unsettled=Unsettled()), value(2), False),
        (GroupEpoch(kind="classic", epoch=2), value(1), value(2), True),
        (GroupEpoch(kind="classic", epoch=1), value(1), value(2), False),
        (GroupEpoch(kind="consumer", epoch=2), value(1), value(2), False),
    ],
)
def test_a_generation_is_told_once(
    last: GroupEpoch | None, before: GroupMetadataValue, after: GroupMetadataValue, is_told: bool
) -> None:
    assert classic_story._is_told(last, before, after) is is_told


def test_of_a_rebalance_its_causes_and_times_are_remembered_and_of_other_groups_nothing() -> None:
    group = ClassicGroup("g", 0)
    groups: dict[str, Group] = {"g": group}
    story, epoch = ClassicStory(groups), GroupEpoch(started_ms=70)
    story._remember("g", epoch)
    story._remember("other", epoch)
    assert (epoch.cause, epoch.started_ms, epoch.formed_ms) == ("", 70, GroupEpoch().formed_ms)
    group.rebalance = Rebalance(50, "first", 1, formed_ms=60)
    story._remember("g", epoch)
    assert (epoch.cause, epoch.started_ms, epoch.formed_ms) == ("first", 50, 60)
    group.rebalance = Rebalance(65, "second", 1, also=["first"], formed_ms=80)
    story._remember("g", epoch)
    assert (epoch.cause, epoch.started_ms, epoch.formed_ms) == ("first; second", 50, 80)
    groups["g"] = ConsumerGroup("g", GroupImage(), None)  # type: ignore[arg-type]
    story._remember("g", epoch)
    assert epoch.cause == "first; second"


def test_members_are_those_of_a_group_that_is_gone() -> None:
    story, members = ClassicStory({}), value(1, ("ann", "i"), BEN)
    for after, before, were in (
        (None, members, {"ann": "i", "ben": None}),
        (value(2), members, {}),
        (None, None, {}),
    ):
        assert story.were_members([(GroupRecord("g", after), before)]) == were


# -- groups whose coordinator assigns ---------------------------------------------------------------------------------


def sub(instance: str | None = None) -> Subscription:
    return Subscription(instance_id=instance)


@pytest.mark.parametrize(
    ("members", "replaced"),
    [
        ({}, {}),
        ({"ann": (sub("i"), None), "ben": (None, sub("i"))}, {"ann": "ben"}),
        ({"ann": (sub("i"), None), "ben": (None, sub("j"))}, {}),
        ({"ann": (sub(), None), "ben": (None, sub())}, {}),
        ({"ann": (sub("i"), None), "ben": (sub("i"), sub("i"))}, {}),
        ({"ann": (sub("i"), sub("i")), "ben": (None, sub("i"))}, {}),
        ({"ann": (None, None), "ben": (None, sub("i"))}, {}),
        ({"ann": (sub("i"), None), "ben": (None, None)}, {}),
    ],
)
def test_a_static_member_that_is_back_has_another_id(members: Any, replaced: dict[str, str]) -> None:
    assert epoch_story._replaced(members) == replaced


@pytest.mark.parametrize(
    ("targets", "inherited"),
    [
        ({}, {}),
        ({"ann": (1, None), "ben": (None, 1)}, {}),
        ({"ann": (1, None), "ben": (None, 2)}, {"ben": (1, 2)}),
        ({"ann": (1, None)}, {"ben": (1, None)}),
        ({"ben": (None, 2)}, {"ben": (None, 2)}),
        ({"ann": (1, None), "ben": (None, 1), "cid": (3, 4)}, {"cid": (3, 4)}),
    ],
)
def test_what_it_had_it_has_still(targets: Any, inherited: Any) -> None:
    assert epoch_story._inherited(targets, {"ann": "ben"}) == inherited


def test_who_is_behind_has_not_come_to_its_target_or_comes_there_now() -> None:
    view = GroupView()
    for name, current in {"ann": Current(3), "ben": Current(2), "cid": Current(3, state=1), "dan": None}.items():
        view.put(records.MEMBER, name, sub())
        view.put(records.CURRENT, name, current)
    assert epoch_story._behind(view, 3) == ["ben", "cid", "dan"]
    assert epoch_story._behind(view, 3, ("ann", "nobody")) == ["ann", "ben", "cid", "dan"]


class Story(ConsumerStory):
    """What members get has its name as it is; `holders` have it."""

    holders: Mapping[tuple[str, int], str] = {}

    def __init__(self) -> None:
        super().__init__(GroupImage(), None)  # type: ignore[arg-type]

    def name_of(self, what: Any) -> str | None:
        return None if what == "gone" else str(what)

    def holder(self, state: Any, what: Any, number: int) -> str:
        return self.holders.get((what, number), "")


@pytest.mark.parametrize(
    ("targets", "holders", "moves"),
    [
        ({"ann": ({}, {"a": [0]})}, {}, {("a", 0): ("", "ann")}),
        ({"ann": ({"a": [0]}, {})}, {}, {("a", 0): ("ann", "")}),
        ({"ann": ({"a": [0]}, {"a": [0]})}, {}, {}),
        ({"ann": ({"a": [0, 1]}, {"a": [1, 2]})}, {}, {("a", 0): ("ann", ""), ("a", 2): ("", "ann")}),
        ({"ann": ({"a": [0]}, {}), "ben": ({}, {"a": [0]})}, {}, {("a", 0): ("ann", "ben")}),
        ({"ben": ({}, {"a": [0]}), "ann": ({"a": [0]}, {})}, {}, {("a", 0): ("ann", "ben")}),
        ({"ann": ({"a": [0]}, {}), "ben": ({}, {"a": [0]})}, {("a", 0): "cid"}, {("a", 0): ("cid", "ben")}),
        ({"ann": ({"a": [0]}, {}), "ben": ({}, {"a": [0]})}, {("a", 0): "ben"}, {("a", 0): ("ann", "ben")}),
        ({"ann": ({}, {"a": [0]})}, {("a", 0): "ann"}, {("a", 0): ("", "ann")}),
        ({"ann": ({"gone": [0]}, {"gone": [1]})}, {}, {}),
        ({"ann": (None, {"a": [0]})}, {}, {("a", 0): ("", "ann")}),
        ({"ann": ({"a": [0]}, None)}, {}, {("a", 0): ("ann", "")}),
    ],
)
def test_what_moves_from_whom(targets: Any, holders: Any, moves: Any) -> None:
    story = Story()
    story.holders = holders
    assert story._moves(ConsumerState(), [], targets) == moves


def test_what_was_given_up_since_the_last_targets_came_from_who_had_it() -> None:
    """An epoch that had targets ends the look, and what is newer counts."""
    story = Story()
    epochs = []
    for giver, formed_ms in (("dan", -1), ("ann", -1), ("old", 5), ("older", -1)):
        epoch = GroupEpoch(formed_ms=formed_ms)
        places = {("a", 0): (giver, "")} | ({("a", 1): (giver, "")} if giver != "dan" else {})
        put_moves(epoch, places)
        epochs.append(epoch)
    targets: Any = {"ben": ({}, {"a": [0, 1, 2]})}
    assert story._moves(ConsumerState(), epochs, targets) == {
        ("a", 0): ("dan", "ben"), ("a", 1): ("ann", "ben"), ("a", 2): ("", "ben"),
    }  # fmt: skip
    assert story._moves(ConsumerState(), epochs[2:], targets) == {("a", at): ("", "ben") for at in range(3)}


@pytest.mark.parametrize(
    ("members", "were", "taken_over", "notes", "replaced", "told"),
    [
        ({}, {}, {}, {}, {}, ["TOPICS"]),
        ({"ann": (None, sub())}, {}, {}, {}, {}, ["JOINED ann"]),
        ({"ann": (sub(), None)}, {}, {}, {}, {}, ["GONE ann"]),
        ({"ann": (sub(), None)}, {}, {}, {"ann": What.LEFT}, {}, ["LEFT ann"]),
        ({"ann": (None, None)}, {}, {}, {}, {}, ["TOPICS"]),
        ({"ann": (sub("i"), None), "ben": (None, sub("i"))}, {}, {}, {}, {"ann": "ben"}, ["REPLACED ben i"]),
        ({}, {"old": None}, {}, {}, {}, ["GONE old"]),
        ({}, {"old": "i"}, {}, {"old": What.LEFT}, {}, ["LEFT old i"]),
        ({}, {"old": None}, {"old": (None, sub())}, {}, {}, ["TOPICS"]),
        ({}, {}, {"new": (None, sub())}, {}, {}, ["JOINED new"]),
        ({"ann": (None, sub("i"))}, {"old": "i"}, {}, {}, {"x": "ann"}, ["REPLACED ann i"]),
        ({"ann": (None, sub("i"))}, {"old": "j"}, {}, {}, {"x": "ann"}, ["GONE old j", "REPLACED ann i"]),
        ({"ann": (None, sub("i"))}, {"old": "i"}, {}, {}, {}, ["GONE old i", "JOINED ann i"]),
    ],
)
def test_who_came_and_went_with_an_epoch(
    members: Any, were: Any, taken_over: Any, notes: Any, replaced: Any, told: list[str]
) -> None:
    assert who(Story()._who(log(were, notes), taken_over, members, replaced)) == told


def test_what_is_remembered_of_a_group_goes_when_all_is_told_and_with_the_group() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    story = bench.shard._table.historian._stories["consumer"]
    assert isinstance(story, ConsumerStory)
    assert story._under_way == {}
    bench.join("m2", "a")
    under_way = story._under_way[GROUP]
    assert (under_way.epoch, list(under_way.behind), under_way.started_ms) == (3, ["m1", "m2"], bench.now_ms)
    bench.advance(7)
    bench.beat("m1", 2)
    assert under_way.asked == {"m1": bench.now_ms}
    bench.advance(5)
    bench.beat("m1", 2, {"a": [0]})
    assert (under_way.own, list(under_way.behind)) == ({"m1": 5}, ["m2"])
    bench.beat("m2", 3)
    assert story._under_way == {}
    bench.join("m3", "a")
    assert list(story._under_way) == [GROUP]
    story._loose[GROUP], story._forgotten[GROUP] = {}, 9
    for member_id in ("m1", "m2", "m3"):
        bench.beat(member_id, -1)
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    assert (story._under_way, story._loose, story._forgotten) == ({}, {}, {})


def test_how_long_each_took_and_for_how_long_it_was_asked() -> None:
    it = epoch_story._UnderWay(3, 100, ["ann", "ben", "cid", "ann"])
    assert list(it.behind) == ["ann", "ben", "cid"]
    it.saw("nobody", Current(3), 110, gives_up=False)
    it.saw("ann", Current(2, state=1), 110, gives_up=True)
    it.saw("ann", Current(2, state=1), 120, gives_up=True)
    assert (it.asked, it.own, it.times) == ({"ann": 110}, {}, {})
    it.saw("ann", Current(3, state=2), 130, gives_up=False)
    assert (it.asked, it.own, it.times, list(it.behind)) == ({}, {"ann": 20}, {}, ["ann", "ben", "cid"])
    it.saw("ann", Current(3), 150, gives_up=False)
    it.saw("ben", None, 160, gives_up=False)
    it.saw("cid", Current(3), 170, gives_up=False)
    assert (it.times, list(it.behind)) == ({"ann": (50, 20), "cid": (70, 0)}, [])
