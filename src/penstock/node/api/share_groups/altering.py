"""How the coordinator of a share group is asked to alter what it has read, or to delete it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from penstock.coordinator.effects import Effect
from penstock.metadata.features import SHARE_VERSION
from penstock.node.roles.broker import Broker
from penstock.protocol.errors import ErrorCode, KafkaError

AnswerT = TypeVar("AnswerT")


def altered(
    broker: Broker, request: Any, answer: Callable[..., AnswerT], event: Callable[..., list[Effect]]
) -> AnswerT | Awaitable[AnswerT]:
    """`event` is a method of `GroupShard`, and `answer` makes a response of an `error_code`."""
    if not broker.image.features.get(SHARE_VERSION):
        return answer(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id.strip():
        return answer(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return answer(error_code=error.code)
    found: AnswerT | Awaitable[AnswerT] = shard.ask(partial(event, shard.machine), request)
    return found
