"""What clients may say is bounded, what takes long is done in parts, and what is told is what is committed."""

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, CALLER, GROUP, SESSION_MS, Bench, two

from penstock.coordinator.group.consumer import assigning, resolving
from penstock.coordinator.group.consumer.state import GroupView
from penstock.coordinator.group.consumer.values import Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.mark.parametrize(
    ("member_id", "fields"), [("m" * 32_768, {}), ("m2", {"subscribed_topic_regex": "[" + "a" * 32_768 + "]"})]
)
def test_a_name_that_no_record_holds_is_refused_and_the_others_are_served(
    member_id: str, fields: dict[str, Any]
) -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join(member_id, "a", **fields)
    assert bench.replies[member_id, 0].error_code == ErrorCode.INVALID_REQUEST
    assert (list(bench.group.sessions), bench.beat("m1", 2).error_code) == (["m1"], 0)


def test_members_are_counted_for_metrics_as_far_as_they_are_committed() -> None:
    bench = two()
    bench.holds = True
    bench.join("m3", "a")
    assert bench.shard.member_count(GROUP) == 2
    bench.commit()
    assert bench.shard.member_count(GROUP) == 3


def test_a_group_whose_deletion_fails_has_what_was_committed_meanwhile() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.holds = True
    bench.join("m1", "a")
    bench.beat("m1", -1)
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    bench.commit(2)
    assert bench.described().group_state == "Empty"
    bench.fail()
    assert (bench.described().group_state, bench.described().group_epoch) == ("Empty", 3)
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    bench.commit()
    assert GROUP not in bench.shard._table.image.of_kind("consumer")
    bench.restart()
    assert GROUP not in bench.shard._table.image.of_kind("consumer")


def test_of_more_topics_than_a_record_holds_the_first_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could never be written, and the group would read nothing."""
    monkeypatch.setattr(resolving, "BYTES_AT_ONCE", 7)
    bench = Bench(AT_ONCE, a=1, b=1, c=1)
    for number in range(2):
        bench.join(f"m{number}", subscribed_topic_regex=f"a|b|c|{number}")
    bench.come_back()
    bench.advance(resolving.LEAST_PAUSE_MS + 1)
    bench.beat("m0", 1)
    bench.log.clear()
    bench.come_back()
    bench.advance(10)
    assert [resolved.topics for resolved in bench.group.state.expressions.values()] == [("a", "b")] * 2
    assert [len([record for record in append.records if record[0][1] == 16]) for append in bench.log] == [1, 1]
    assert any("and 1 of them, from c on, are not read" in line for line in bench.notes)


def test_what_many_expressions_match_is_written_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "NAMES_AT_ONCE", 4)
    bench = Bench(AT_ONCE, a=1, b=1)
    for number in range(5):
        bench.join(f"m{number}", subscribed_topic_regex=f"a|b|{number}")
    bench.come_back()
    bench.advance(resolving.LEAST_PAUSE_MS + 1)
    bench.beat("m0", 1)
    bench.log.clear()
    bench.come_back()
    assert [len(append.records) for append in bench.log] == [4]
    bench.advance(10)
    assert [len(append.records) for append in bench.log] == [4, 4, 3]
    assert [resolved.topics for resolved in bench.group.state.expressions.values()] == [("a", "b")] * 5
    assert not bench.group.is_resolving
    bench.holds = True
    bench.beat("m0", -1)
    for number in range(1, 5):
        bench.beat(f"m{number}", -1)
    assert (bench.group.state.topics, bench.group.state.reads("a")) == ([], False)
    bench.fail()
    assert (bench.group.state.topics, bench.group.state.reads("a")) == (["a", "b"], True)


def test_a_member_that_goes_on_is_told_at_once_when_nothing_is_under_way() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.advance(20_000)

    def goes_on(epoch: int, **fields: Any) -> int | None:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=epoch).replace(**fields)
        return bench.shard.consumer_goes_on(request, CALLER, bench.now_ms)

    assert goes_on(2) == 5_000
    for other in (goes_on(1), goes_on(3), goes_on(2, subscribed_topic_names=["a"]), goes_on(2, member_id="m2")):
        assert other is None
    bench.advance(SESSION_MS - 1)
    assert goes_on(2) == 5_000
    bench.advance(SESSION_MS - 1)
    assert list(bench.group.state.members) == ["m1"], "it lives by that"
    bench.holds = True
    bench.join("m2", "a", group_id="other")
    assert goes_on(2) is None, "what it rests on may be lost"
    bench.commit()
    assert goes_on(2) == 5_000


def test_what_members_read_is_found_once_for_all_that_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be thousands, and the topics too."""
    bench = Bench(AT_ONCE, a=2, b=2)
    for number in range(12):
        bench.join(f"m{number}", *("ab"[: number % 3]), subscribed_topic_regex="a|b" if number % 2 else "")
    found: list[Subscription] = []
    topics_of = GroupView.topics_of

    def noted(state: GroupView, member: Subscription) -> frozenset[str]:
        found.append(member)
        return topics_of(state, member)

    monkeypatch.setattr(GroupView, "topics_of", noted)
    spec = assigning._spec(bench.shard.consumers._house, bench.group)
    assert len(spec.readers) == 12
    assert len(found) == 6, "no topics, the first, or both, each with the expression and without it"
