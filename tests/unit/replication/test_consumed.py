"""What all groups have consumed: when that is known, and who keeps everything."""

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.consumed import Answer, Consumption, Question, new_start

TOPIC = "__consumer_offsets"
GRACE_MS = 1_000


def asked(*answers: tuple[int, Answer]) -> Question:
    question = Question()
    for index, answer in answers:
        question.answered((TOPIC, index), answer)
    return question


@pytest.mark.parametrize(
    ("answers", "epochs"),
    [
        pytest.param([(0, Answer(4, 2, {}))], {0: 4, 1: 4}, id="a shard is missing"),
        pytest.param([(0, Answer(4, 2, {})), (1, Answer(3, 2, {}))], {0: 4, 1: 4}, id="an old coordinator"),
        pytest.param([(0, Answer(4, 3, {})), (1, Answer(4, 3, {}))], {0: 4, 1: 4}, id="there are more shards"),
    ],
)
def test_nothing_is_known_unless_every_coordinator_has_answered(
    answers: list[tuple[int, Answer]], epochs: dict[int, int]
) -> None:
    with pytest.raises(KafkaError) as raised:
        asked(*answers).positions({(TOPIC, index): epoch for index, epoch in epochs.items()})
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert TOPIC in str(raised.value)


def test_of_two_coordinators_of_a_shard_the_later_one_counts() -> None:
    new, old = (0, Answer(5, 1, {"readers": {0: 3}})), (0, Answer(4, 1, {"readers": {0: 9}}))
    for answers in ([new, old], [old, new]):
        assert asked(*answers).positions({(TOPIC, 0): 5}) == {"readers": {0: 3}}


def test_all_groups_of_all_shards_are_there() -> None:
    question = asked((0, Answer(1, 2, {"a": {0: 3}})), (1, Answer(2, 2, {"b": {1: 5}, "c": {}})))
    assert question.positions({(TOPIC, 0): 1, (TOPIC, 1): 1}) == {"a": {0: 3}, "b": {1: 5}, "c": {}}


def test_what_several_coordinators_know_of_a_group_is_one() -> None:
    """Of a share group one knows the members, and another one how far they are."""
    question = asked((0, Answer(1, 1, {"workers": {}})))
    question.answered(("__share_group_state", 0), Answer(1, 1, {"workers": {0: 7}}))
    assert question.positions({(TOPIC, 0): 1, ("__share_group_state", 0): 1}) == {"workers": {0: 7}}


def test_of_two_offsets_of_a_group_the_lesser_counts() -> None:
    """There are two where a shard has a group of before the topic of coordinators had more partitions."""
    for first, second in (3, 7), (7, 3):
        question = asked((0, Answer(1, 2, {"a": {0: first, 1: 1}})), (1, Answer(1, 2, {"a": {0: second}})))
        assert question.positions({(TOPIC, 0): 1, (TOPIC, 1): 1}) == {"a": {0: 3, 1: 1}}


def test_the_slowest_group_counts() -> None:
    consumption = Consumption(0)
    assert consumption.consumed_to({"a": {0: 7, 1: 2}, "b": {0: 5}}, GRACE_MS, 0) == 5
    assert consumption.consumed_to({"a": {0: 7, 1: 2}}, GRACE_MS, 1) == 7, "a deleted group lets go"
    assert consumption.consumed_to({}, GRACE_MS, 1) == 0, "nobody has consumed anything"


def test_a_group_without_an_offset_keeps_everything_as_long_as_the_grace_lasts() -> None:
    consumption, positions = Consumption(0), {"a": {0: 7}, "new": {1: 4}}
    assert consumption.consumed_to(positions, GRACE_MS, 0) == 0
    assert consumption.consumed_to(positions, GRACE_MS, GRACE_MS - 1) == 0
    assert consumption.consumed_to(positions, -1, GRACE_MS) == 0
    assert consumption.consumed_to(positions, GRACE_MS, GRACE_MS) == 7
    assert Consumption(0).consumed_to(positions, GRACE_MS, GRACE_MS) == 0, "for another leader it is new"


def test_the_grace_begins_anew_for_a_group_that_was_gone() -> None:
    consumption, positions = Consumption(0), {"a": {0: 7}, "new": {}}
    consumption.consumed_to(positions, GRACE_MS, 0)
    consumption.consumed_to({"a": {0: 7}}, GRACE_MS, 500)
    assert consumption.consumed_to(positions, GRACE_MS, GRACE_MS) == 0


def test_a_group_that_never_commits_is_no_consumption() -> None:
    consumption = Consumption(0)
    assert consumption.consumed_to({"new": {}}, 0, 5) == 0


@pytest.mark.parametrize(
    ("consumed_to", "start"), [(3, 5), (7, 7), (9, 8), (12, 8)], ids=["no step back", "", "LSO", "high watermark"]
)
def test_the_log_begins_no_later_than_open_transactions(consumed_to: int, start: int) -> None:
    assert new_start(consumed_to, log_start_offset=5, high_watermark=10, last_stable_offset=8) == start


def test_of_two_answers_of_the_same_coordinator_the_first_counts() -> None:
    first, second = (0, Answer(5, 1, {"readers": {0: 3}})), (0, Answer(5, 1, {"readers": {0: 9}}))
    assert asked(first, second).positions({(TOPIC, 0): 5}) == {"readers": {0: 3}}


def test_each_group_without_an_offset_has_a_grace_of_its_own() -> None:
    consumption, positions = Consumption(0), {"a": {0: 7}, "first": {}}
    assert consumption.consumed_to(positions, GRACE_MS, 0) == 0
    positions["second"] = {}
    for now_ms, consumed_to in ((500, 0), (GRACE_MS, 0), (GRACE_MS + 499, 0), (GRACE_MS + 500, 7)):
        assert consumption.consumed_to(positions, GRACE_MS, now_ms) == consumed_to
