"""What a node asks of its own controller: as itself or for a client, of an active one or of one that is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api import local_controller
from penstock.node.api.commands import RULES
from penstock.node.api.local_controller import ITSELF, answered_here
from penstock.node.serving.access import ALLOW_ALL
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from penstock.protocol.requests.api import ApiKey

QUORUM, COMMAND = DescribeQuorumRequest(), CreateTopicsRequest()


class Node:
    """A controller whose handlers note who asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = 0, *, has_handlers: bool = True) -> None:
        self.asked: list[Any] = []
        self.reply = DescribeQuorumResponse(error_code=code)
        handler = SimpleNamespace(rule="rule of the handler")
        self.handlers = {ApiKey.DESCRIBE_QUORUM: handler} if has_handlers else {}
        monkeypatch.setattr(local_controller, "load_handlers", lambda _: {ApiKey.DESCRIBE_QUORUM: handler})
        monkeypatch.setattr(local_controller, "asked", self.answer)
        monkeypatch.setattr(local_controller, "judged", self.judged)
        monkeypatch.setattr(local_controller, "decided", self.decided)

    def answer(self, handler: object, node: object, context: Any, request: object) -> Any:
        assert (node, request) == (self, QUORUM)
        self.asked.append(("asked", context))
        return self.reply

    def decided(self, node: object, context: Any, request: object, *, deadline_s: float) -> Any:
        assert (node, request) == (self, COMMAND)
        self.asked.append(("decided", context, deadline_s))
        return self.reply

    def judged(self, rule: object, answer: Any, node: object, context: Any, request: Any) -> Any:
        assert node is self
        self.asked.append(("judged", rule))
        return answer(request)


@pytest.mark.parametrize("has_handlers", [True, False])
async def test_a_node_asks_for_itself_and_is_not_judged(monkeypatch: pytest.MonkeyPatch, has_handlers: bool) -> None:
    node = Node(monkeypatch, has_handlers=has_handlers)
    assert await answered_here(cast("Any", node), QUORUM, 5.0) is node.reply
    ((what, context),) = node.asked
    assert (what, context.session, context.api_key) == ("asked", ITSELF, ApiKey.DESCRIBE_QUORUM)
    assert (context.api_version, context.correlation_id, context.client_id) == (2, 0, None)
    assert list(node.handlers) == [ApiKey.DESCRIBE_QUORUM]


@pytest.mark.parametrize(("authorizer", "is_judged"), [(ALLOW_ALL, False), (object(), True)])
async def test_a_client_is_judged_where_there_are_rules(
    monkeypatch: pytest.MonkeyPatch, authorizer: object, is_judged: bool
) -> None:
    node, context = Node(monkeypatch), cast("Any", SimpleNamespace(authorizer=authorizer))
    assert await answered_here(cast("Any", node), QUORUM, 5.0, context) is node.reply
    assert node.asked == [*[("judged", "rule of the handler")] * is_judged, ("asked", context)]
    node.asked.clear()
    assert await answered_here(cast("Any", node), COMMAND, 5.0, context) is node.reply
    rule = RULES[ApiKey.CREATE_TOPICS]
    assert node.asked == [*[("judged", rule)] * is_judged, ("decided", context, 5.0)]


@pytest.mark.parametrize(
    ("code", "is_active"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.NOT_CONTROLLER, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.INVALID_REQUEST, True),
    ],
)
async def test_who_is_not_active_answers_nothing(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, is_active: bool
) -> None:
    node = Node(monkeypatch, code)
    if is_active:
        assert await answered_here(cast("Any", node), QUORUM, 5.0) is node.reply
    else:
        with pytest.raises(KafkaError) as refused:
            await answered_here(cast("Any", node), QUORUM, 5.0)
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
