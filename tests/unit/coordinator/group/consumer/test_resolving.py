"""When the expressions of a group are matched with the topics, and with which."""

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, Bench, told

from penstock.coordinator.group.consumer import resolving
from penstock.protocol.expressions.parse import ExpressionError


def test_an_expression_is_matched_elsewhere_and_again_when_there_are_new_topics() -> None:
    bench = Bench(AT_ONCE, a=1, b=1)
    answer = bench.join("m1", subscribed_topic_names=None, subscribed_topic_regex="[ac]")
    assert (answer.member_epoch, told(answer)) == (1, {})
    bench.come_back()
    assert told(bench.beat("m1", 1)) == {"a": [0]}
    bench.grow("c", 1)
    assert bench.beat("m1", 2).assignment is None
    assert not bench.errands, "not so soon"
    bench.advance(10_001)
    bench.beat("m1", 2)
    bench.come_back()
    assert told(bench.beat("m1", 2)) == {"a": [0], "c": [0]}
    assert bench.shard.describe_consumer_group(GROUP).members[0].subscribed_topic_regex == "[ac]"
    bench.beat("m1", -1)
    assert not bench.group.state.expressions


def test_an_expression_is_matched_again_though_it_was_last_by_a_clock_that_was_ahead() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", subscribed_topic_names=None, subscribed_topic_regex="[ac]")
    bench.come_back()
    assert told(bench.beat("m1", 1)) == {"a": [0]}
    bench.now_ms -= 900_000
    bench.restart()
    bench.grow("c", 1)
    bench.beat("m1", 2)
    bench.come_back()
    assert told(bench.beat("m1", 2)) == {"a": [0], "c": [0]}
    bench.beat("m1", 3)
    assert not bench.errands, "by this clock it is not so long ago"


def test_an_expression_does_not_match_what_the_member_may_not_know_of() -> None:
    bench = Bench(AT_ONCE, a=1, b=1)
    bench.hidden = {"a"}
    bench.join("m1", subscribed_topic_names=None, subscribed_topic_regex="[a-c]")
    bench.come_back()
    assert told(bench.beat("m1", 1)) == {"b": [0]}
    for hidden, topic, expected in ((set(), "c", {"a": [0], "b": [0], "c": [0]}), ({"a", "b"}, "d", {"c": [0]})):
        bench.hidden = hidden
        bench.grow(topic, 1)
        bench.advance(10_001)
        epoch = bench.described().group_epoch
        bench.beat("m1", epoch)
        bench.come_back()
        assert told(bench.beat("m1", epoch)) == expected


def test_what_is_refused_by_a_coordinator_that_knows_less_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members lose all their topics by that."""
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", subscribed_topic_names=None, subscribed_topic_regex="[ac]")
    bench.come_back()
    assert told(bench.beat("m1", 1)) == {"a": [0]}

    def refused(text: str) -> None:
        raise ExpressionError(f"{text} is not served")

    monkeypatch.setattr(resolving, "Matcher", refused)
    bench.grow("c", 1)
    bench.advance(10_001)
    bench.beat("m1", 2)
    bench.come_back()
    assert not bench.group.state.topics
    assert bench.notes == [f"group {GROUP}: [ac] matches no topics, and its members lose them: [ac] is not served"]
