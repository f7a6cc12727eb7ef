"""Cases of Kafka's own tests of consumer groups: members that say all again, come again, and static ones."""

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, REBALANCE_MS, Bench, told, two

from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.protocol.errors import ErrorCode

FULL: dict[str, Any] = {"subscribed_topic_names": ["a"], "rebalance_timeout_ms": REBALANCE_MS}


def in_the_midst() -> Bench:
    """At epoch 3, m1 is to give up one of two partitions, and m2 waits for it."""
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.beat("m1", 2)
    return bench


def full(bench: Bench, member_id: str, epoch: int, owned: dict[str, list[int]], **fields: Any) -> Any:
    """Twice: the answer is the same, and nothing more is written."""
    first = bench.beat(member_id, epoch, owned, **(FULL | fields))
    written, state = len(bench.log), bench.group.state.current(member_id)
    assert bench.beat(member_id, epoch, owned, **(FULL | fields)) == first
    assert (len(bench.log), bench.group.state.current(member_id)) == (written, state)
    return first


def test_who_joins_again_has_given_all_up() -> None:
    bench = in_the_midst()
    answer = bench.join("m1", "a")
    assert (answer.member_epoch, told(answer)) == (3, {"a": [0]})
    assert told(bench.beat("m2", 3)) == {"a": [1]}


def test_who_waits_for_others_may_join_again() -> None:
    bench = in_the_midst()
    answer = bench.join("m2", "a")
    assert (answer.error_code, answer.member_epoch, told(answer)) == (ErrorCode.NONE, 3, {})


@pytest.mark.parametrize(
    ("member_id", "epoch", "owned", "expected"),
    [
        ("m1", 2, {"a": [0, 1]}, (2, {"a": [0]})),
        ("m1", 2, {"a": [0]}, (3, {"a": [0]})),
        ("m2", 3, {}, (3, {})),
    ],
    ids=["unrevoked", "given up", "unreleased"],
)
def test_who_says_all_twice_is_told_all_twice(
    member_id: str, epoch: int, owned: dict[str, list[int]], expected: tuple[int, dict[str, list[int]]]
) -> None:
    answer = full(in_the_midst(), member_id, epoch, owned)
    assert (answer.member_epoch, told(answer)) == expected


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [
        (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {"a": [0, 1, 2]}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {"a": [1]}, ErrorCode.NONE),
        (2, {}, ErrorCode.NONE),
        (3, None, ErrorCode.NONE),
    ],
)
def test_epochs_of_static_members_are_as_those_of_others(
    epoch: int, owned: dict[str, list[int]] | None, code: ErrorCode
) -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("s", "a", instance_id="i")
    bench.grow("a", 1)
    assert bench.beat("s", 2, instance_id="i").member_epoch == 3
    assert bench.beat("s", epoch, owned, instance_id="i").error_code == code


def test_in_a_full_group_a_static_member_has_its_place_and_no_other_one_has() -> None:
    bench = Bench(GroupSettings(consumer=ConsumerSettings(max_size=1, assignment_interval=Bounded(0, 0, 0))), a=1)
    bench.join("m1", "a", instance_id="i")
    assert bench.join("m2", "a", instance_id="j").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("m2", "a", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    bench.beat("m1", -2, instance_id="i")
    answer = bench.join("m2", "a", instance_id="i")
    assert (answer.error_code, told(answer)) == (ErrorCode.NONE, {"a": [0]})


def test_who_comes_back_may_read_other_topics() -> None:
    bench = Bench(AT_ONCE, a=1, b=1)
    bench.join("m1", "a", instance_id="i")
    epoch = bench.group.state.epoch
    bench.beat("m1", -2, instance_id="i")
    answer = bench.join("m2", "a", "b", instance_id="i")
    assert (answer.member_epoch, told(answer)) == (epoch + 1, {"a": [0], "b": [0]})
    bench.beat("m2", -2, instance_id="i")
    answer = bench.join("m3", "a", "b", "c", instance_id="i")
    assert (answer.member_epoch, told(answer)) == (epoch + 2, {"a": [0], "b": [0]}), "c is not there"


def test_who_comes_back_may_want_another_assignor() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a", instance_id="i", server_assignor="uniform")
    bench.beat("m1", -2, instance_id="i")
    bench.join("m2", "a", instance_id="i", server_assignor="range")
    assert bench.group.state.assignor_counts == bench.group.committed.assignor_counts == {"range": 1}
    assert bench.described().assignor_name == "range"


def test_a_member_may_come_back_with_another_instance_id() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a", instance_id="i")
    assert bench.join("m1", "a", instance_id="j").error_code == ErrorCode.NONE
    assert bench.group.state.static_ids == {"j": "m1"}
    bench.restart()
    assert bench.group.state.static_ids == {"j": "m1"}


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_static_member_leaves_by_its_own_id_alone(epoch: int) -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a", instance_id="i")
    assert bench.beat("m9", epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.beat("m1", epoch, instance_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(bench.group.state.members) == ["m1"]
    assert bench.group.state.current("m1").epoch == 2


def test_who_is_no_member_and_comes_with_an_epoch_is_unknown() -> None:
    bench = two()
    assert bench.beat("m9", 1, {}, **FULL).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m9", 1, {}, **FULL, instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
