"""When the expressions of a group are matched with the topics, and with which."""

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, Bench, told

from penstock.coordinator.group.consumer import resolving
from penstock.protocol.errors import ErrorCode
from penstock.protocol.expressions.matcher import MOST_STATES, MOST_WORK, Matcher
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

    def refused(text: str, most_work: float) -> None:
        raise ExpressionError(f"{text} is not served")

    monkeypatch.setattr(resolving, "Matcher", refused)
    bench.grow("c", 1)
    bench.advance(10_001)
    bench.beat("m1", 2)
    bench.come_back()
    assert not bench.group.state.topics
    assert bench.notes == [f"group {GROUP}: [ac] matches no topics, and its members lose them: [ac] is not served"]


def test_all_expressions_of_a_group_may_take_as_long_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred members, each with another one that takes long, had a thread busy for minutes."""
    made = list[Matcher]()

    def counted(text: str, most_work: float = MOST_WORK) -> Matcher:
        made.append(Matcher(text, most_work=most_work))
        return made[-1]

    bench = Bench(AT_ONCE, **{"a" * 20: 1, "b" * 20: 1})
    bench.join("good", subscribed_topic_names=None, subscribed_topic_regex="a+")
    for number in range(9):
        bench.join(f"m{number}", subscribed_topic_names=None, subscribed_topic_regex=f"(.?){{100}}q|x{number}")
    bench.come_back()
    bench.advance(resolving.LEAST_PAUSE_MS + 1)
    monkeypatch.setattr(resolving, "MOST_WORK", 10_000)
    monkeypatch.setattr(resolving, "Matcher", counted)
    bench.beat("good", 1)
    bench.come_back()
    assert len(made) == 10
    assert sum(one.work for one in made) < 10_000 + MOST_STATES
    assert bench.group.state.expressions["a+"].topics == ("a" * 20,)
    assert any("x8 matches no topics" in line and "it takes too long" in line for line in bench.notes)


def test_a_group_has_so_many_different_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "MOST_EXPRESSIONS", 2)
    bench = Bench(AT_ONCE, a=1)
    for member_id, expression in (("m1", "1"), ("m2", "2"), ("m3", "2"), ("m4", "1")):
        bench.join(member_id, subscribed_topic_names=None, subscribed_topic_regex=expression)
    bench.join("m5", subscribed_topic_names=None, subscribed_topic_regex="3")
    refusal = bench.replies["m5", 0]
    assert refusal.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "the group has 2 different regular expressions already; at most 2 are served" in str(refusal.error_message)
    epoch = bench.described().group_epoch
    bench.beat("m1", epoch, subscribed_topic_regex="3")
    assert bench.replies["m1", epoch].error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    bench.beat("m4", -1)
    assert bench.beat("m1", epoch, subscribed_topic_regex="3").error_code == 0, (
        "it was the last that had the former one"
    )
