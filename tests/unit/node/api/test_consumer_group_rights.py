"""What members of consumer groups, and who looks at groups, are told of topics that they may not know of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.features import GROUP_VERSION
from penstock.metadata.image import ClusterImage
from penstock.node.api.consumer_groups.consumer_group_describe import consumer_group_describe
from penstock.node.api.consumer_groups.consumer_group_heartbeat import _kept_answer, consumer_group_heartbeat
from penstock.node.api.consumer_groups.describe_group_history import describe_group_history
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.serving.audit import Audit
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import Slices
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.requests import own_apis
from penstock.protocol.requests.api import ApiKey

ADA = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))


class Asked:
    """A coordinator that keeps what it is given."""

    def __init__(self) -> None:
        self.may_describe: Callable[[str], bool] = lambda topic: False
        self.machine = SimpleNamespace(consumer_heartbeat=None, consumer_goes_on=lambda *_: None)

    def ask(self, _: Any, request: Any, caller: Any, may_describe: Callable[[str], bool]) -> Any:
        self.may_describe = may_describe


@pytest.mark.parametrize(("length", "is_kept"), [(36, True), (256, True), (257, False), (32_767, False)])
def test_the_answer_of_a_member_is_kept_that_has_no_long_id(length: int, is_kept: bool) -> None:
    """Members that have gone had half a gigabyte."""
    asked = Asked()
    asked.machine.consumer_goes_on = lambda *_: 5_000
    groups = SimpleNamespace(find=lambda _: asked, departures=(), now_ms=lambda: 0)
    broker = SimpleNamespace(image=SimpleNamespace(features={GROUP_VERSION: 1}), groups=groups)
    context = RequestContext(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 1, "c", ADA)
    request = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="m" * length, member_epoch=7)
    _kept_answer.cache_clear()
    first, second = (consumer_group_heartbeat(cast("Any", broker), context, request) for _ in range(2))
    assert first == second
    assert _kept_answer.cache_info().currsize == is_kept


@pytest.mark.parametrize("watches", [False, True])
def test_a_topic_that_an_expression_matches_is_left_out_and_not_refused(
    caplog: pytest.LogCaptureFixture, watches: bool
) -> None:
    rules, asked = AccessRules(), Asked()
    authorizer = StandardAuthorizer(
        ClusterImage(), rules, Audit(rules, lambda: 0.0, lambda *_: None, watches=watches), (), lambda: True
    )
    groups = SimpleNamespace(find=lambda _: asked, departures=(), now_ms=lambda: 0)
    broker = SimpleNamespace(image=SimpleNamespace(features={GROUP_VERSION: 1}), groups=groups)
    context = RequestContext(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 1, "c", ADA, authorizer)
    request = ConsumerGroupHeartbeatRequest(group_id="readers", subscribed_topic_regex=".*")
    consumer_group_heartbeat(cast("Any", broker), context, request)
    assert asked.may_describe("flights") is watches
    assert (authorizer.denied, caplog.messages) == (0, [])


@pytest.mark.parametrize(("kind", "shown"), [("consumer", ["flights", "flights"]), ("streams", ["flights", "0"] * 2)])
def test_of_a_topic_that_the_client_may_not_describe_no_moves_are_told(kind: str, shown: list[str]) -> None:
    """Subtopologies are no topics."""
    other = "secrets" if kind == "consumer" else "0"
    moves = [own_apis.MovedPartitions(topic=name, taker="m", partitions=[0]) for name in ("flights", other)]
    told = own_apis.DescribedHistory(
        group_id="readers",
        epochs=[own_apis.GroupEpoch(kind=kind, moved=2, moves=list(moves))],
        awaited=[own_apis.Awaited(member_id="m", partitions=list(moves))],
    )
    shard = SimpleNamespace(machine=SimpleNamespace(describe_history=lambda *_: told))
    groups = SimpleNamespace(find=lambda _: shard, departures=(), now_ms=lambda: 0)
    context = SimpleNamespace(shows=lambda right, topic: topic == "flights")
    request = own_apis.DescribeGroupHistoryRequest(groups=["readers"])
    steps = describe_group_history(cast("Any", SimpleNamespace(groups=groups)), cast("Any", context), request)
    answer = Slices().answer(steps)
    assert not isinstance(answer, Awaitable)
    (epoch,), (awaited,) = answer.groups[0].epochs, answer.groups[0].awaited
    assert [one.topic for one in (*epoch.moves, *awaited.partitions)] == shown
    assert epoch.moved == 2


def test_without_the_feature_nobody_is_served() -> None:
    broker = cast("Any", SimpleNamespace(image=SimpleNamespace(features={}), groups=SimpleNamespace(departures=())))
    context = cast("Any", SimpleNamespace(api_version=1))
    answer = consumer_group_heartbeat(broker, context, ConsumerGroupHeartbeatRequest(group_id="readers"))
    assert cast("Any", answer).error_code == ErrorCode.UNSUPPORTED_VERSION
    described = Slices().answer(
        consumer_group_describe(broker, context, ConsumerGroupDescribeRequest(group_ids=["readers"]))
    )
    assert [one.error_code for one in cast("Any", described).groups] == [ErrorCode.UNSUPPORTED_VERSION]
