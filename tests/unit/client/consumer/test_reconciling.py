"""What a member of the consumer protocol says to its coordinator, and what it takes from the answers."""

from uuid import UUID

import pytest

from penstock.client.consumer.reconciling import Reconciling
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

A = UUID(int=1)


def member(**fields: str) -> Reconciling:
    made = Reconciling("g", "m", rebalance_timeout_ms=7, **fields)
    made.subscribe(["b", "a"], None)
    return made


def answer(epoch: int, *indexes: int, has_assignment: bool = True) -> ConsumerGroupHeartbeatResponse:
    rows = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=A, partitions=list(indexes))]
    assignment = Assignment(topic_partitions=rows if indexes else []) if has_assignment else None
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=50, assignment=assignment)


def owns(request: ConsumerGroupHeartbeatRequest) -> list[int] | None:
    if request.topic_partitions is None:
        return None
    return [index for topic in request.topic_partitions for index in topic.partitions]


def at(epoch: int, *indexes: int) -> Reconciling:
    """It owns these, and has said so."""
    made = member()
    made.request()
    made.answered(answer(epoch, *indexes))
    made.come_to(made.target)
    made.request()
    made.answered(answer(epoch, has_assignment=False))
    return made


def test_the_first_heartbeat_says_all() -> None:
    request = member(instance_id="i", rack_id="r", assignor="range").request()
    assert (request.member_epoch, request.member_id, request.instance_id, request.rack_id) == (0, "m", "i", "r")
    assert (request.rebalance_timeout_ms, request.server_assignor, request.topic_partitions) == (7, "range", [])
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["a", "b"], "")


def test_later_ones_say_no_more_than_that_it_lives() -> None:
    request = at(3, 0).request()
    assert request == ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)


def test_it_says_what_it_owns_when_it_has_come_to_its_target_and_not_before() -> None:
    made = at(3, 0, 1)
    made.answered(answer(3, 0))
    assert (made.is_at_target, made.has_news) == (False, False)
    assert owns(made.request()) is None
    made.answered(answer(3, has_assignment=False))
    made.come_to(made.target)
    assert made.has_news
    assert owns(made.request()) == [0]
    assert not made.has_news


def test_after_no_answer_it_says_all_and_owns_still_what_it_is_to_give_up() -> None:
    made = at(3, 0, 1)
    made.answered(answer(3, 0))
    made.request()
    made.unanswered()
    request = made.request()
    assert owns(request) == [0, 1]
    assert (request.member_epoch, request.subscribed_topic_names) == (3, ["a", "b"])


def test_another_subscription_is_said_at_once_and_the_same_one_is_not() -> None:
    made = at(3, 0)
    made.subscribe(["a", "b"], None)
    assert not made.has_news
    made.subscribe([], "a.*")
    assert made.has_news
    request = made.request()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex, owns(request)) == ([], "a.*", [0])


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_one_that_was_put_out_owns_nothing_and_joins_again(code: ErrorCode) -> None:
    made = at(3, 0)
    made.request()
    made.refused(KafkaError(code))
    assert (made.is_lost, made.owned, made.is_at_target) == (True, frozenset(), True)
    assert (made.request().member_epoch, owns(made.request())) == (0, [])
    made.come_to(frozenset({(A, 0)}))
    assert made.owned == frozenset(), "what it was about to come to is somebody else's"


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.UNRELEASED_INSTANCE_ID, True),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, True),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, True),
        (ErrorCode.GROUP_ID_NOT_FOUND, True),
    ],
)
def test_which_refusals_end_it(code: ErrorCode, is_final: bool) -> None:
    made = member()
    made.request()
    if is_final:
        with pytest.raises(KafkaError):
            made.refused(KafkaError(code))
    else:
        made.refused(KafkaError(code))
        assert made.request().subscribed_topic_names == ["a", "b"]


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_static_member_leaves_for_a_while(instance_id: str | None, epoch: int) -> None:
    made = Reconciling("g", "m", rebalance_timeout_ms=7, instance_id=instance_id)
    made.answered(answer(3, 0))
    assert made.leaving().member_epoch == epoch
    assert made.epoch == 0
