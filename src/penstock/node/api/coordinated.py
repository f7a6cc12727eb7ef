"""What APIs of coordinators have in common: what they ask for may just be on its way to another one (`Departure`),
or offsets may be for topics that are not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

from penstock.coordinator.group.classic.member import Caller
from penstock.metadata.topics import TopicImage
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.coordinators.hosted import Parked
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import NOT_ASKED
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.parts import NAMES_A_STEP
from penstock.node.serving.slices import Pace, Steps, started
from penstock.protocol.acls import Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
T = TypeVar("T")

_CALLERS_KEPT: Final = 4_096
_OPERATIONS_AS_NAMES: Final = 20
"""What a client may do with a group takes as long to find out as so many names take."""
USUAL_NAME: Final = 256
"""Characters of an id of a client or a member: longer ones are not remembered, as each may have 32 kB."""


def group_of(request: Any) -> Sequence[str]:
    return (request.group_id,)


def caller_of(context: RequestContext) -> Caller:
    """The same one for all members of a client on a host: what their last heartbeats rest on is kept."""
    client_id = context.client_id or ""
    caller = _kept_caller if len(client_id) <= USUAL_NAME else _new_caller
    return caller(client_id, context.session.client_host, context.api_version)


def _new_caller(client_id: str, client_host: str, api_version: int) -> Caller:
    return Caller(client_id, f"/{client_host}", api_version)


_kept_caller: Final = lru_cache(_CALLERS_KEPT)(_new_caller)


def answered(broker: Broker, found: Any) -> Any:
    """What a handler returns, or something to await, where that is work in slices, too."""
    return broker.slices.answer(found) if isinstance(found, Generator) else found


def groups(broker: Broker) -> CoordinatorHost[Any]:
    return broker.groups


def transactions(broker: Broker) -> CoordinatorHost[Any]:
    return broker.transactions


def coordinated(
    keys_of: Callable[[Any], Sequence[str]] = group_of,
    *,
    at: Callable[[Broker], CoordinatorHost[Any]] = groups,
    parks: bool = False,
) -> Callable[[FunctionT], FunctionT]:
    """Declare that a handler asks the coordinator of these keys; `parks`: an answer may wait for other members."""

    def decorate(function: FunctionT) -> FunctionT:
        def parked(broker: Broker, context: RequestContext, request: Any) -> Any:
            found = function(broker, context, request)
            return _Parked(broker, context, request, found) if type(found) is Parked else found

        ask: Callable[..., Any] = parked if parks else function

        @wraps(function)
        def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
            host = at(broker)
            if host.departures:
                departure = host.departure_of(keys_of(request))
                if departure is not None and departure.takes(context.api_key):
                    return departure.answer(context, request, lambda: answered(broker, ask(broker, context, request)))
            return ask(broker, context, request)

        return cast("FunctionT", handle)

    return decorate


class _Parked(LateAnswer[Any]):
    """The answer that others bring; where the coordinator has gone before there was one, that of its successor."""

    __slots__ = ("_answer", "_broker", "_context", "_request")

    def __init__(self, broker: Broker, context: RequestContext, request: Any, answer: LateAnswer[Any]) -> None:
        super().__init__()
        self._broker, self._context, self._request = broker, context, request
        self._answer: LateAnswer[Any] | asyncio.Future[Any] = answer
        answer.listen(self)

    def call_off(self) -> None:
        self.forget()
        answer = self._answer
        if isinstance(answer, LateAnswer):
            answer.call_off()
        else:
            answer.cancel()

    def told(self, found: Any) -> None:
        is_gone, request = found.error_code == ErrorCode.NOT_COORDINATOR, self._request
        departure = self._broker.groups.departure_of(group_of(request)) if is_gone else None
        if departure is None or not departure.takes(self._context.api_key):
            self.tell(found)
            return
        if isinstance(found, JoinGroupResponse):  # it may have got an id meanwhile
            request = request.replace(member_id=found.member_id)
        asked = started(self._context.asker, departure.answer(self._context, request, lambda: found))
        self._answer = asked
        asked.add_done_callback(self._followed)

    def failed(self, error: Exception) -> None:
        self.fail(error)

    def _followed(self, asked: asyncio.Future[Any]) -> None:
        if asked.cancelled():
            return
        if isinstance(error := asked.exception(), Exception):
            self.fail(error)
        else:
            self.tell(asked.result())


def each_once(group_ids: Iterable[str], describe: Callable[[str], T]) -> Steps[list[T]]:
    """What is told of groups, others having their turn after each: one may have thousands of members. However often it
    is named, it is told of once: else a short request had an answer without end.
    """
    found: dict[str, T] = {}
    again = Pace(NAMES_A_STEP)
    for group_id in group_ids:
        if group_id not in found:
            found[group_id] = describe(group_id)
            yield None
        elif again.is_due():
            yield None
    return list(found.values())


def with_operations(context: RequestContext, request: Any, groups: Iterable[Any]) -> Steps[None]:
    """Of those of which anything is told, if the request asks for that."""
    pace = Pace(NAMES_A_STEP)
    for group in groups if request.include_authorized_operations else ():
        is_told = group.error_code == ErrorCode.NONE
        if pace.is_due(_OPERATIONS_AS_NAMES if is_told else 1):
            yield None
        operations = context.operations_on(Resource.GROUP, group.group_id) if is_told else NOT_ASKED
        group.authorized_operations = operations


def with_ages(group: T, ages_ms: Mapping[str, int]) -> T:
    """What is told of a group, with how long ago each of its members was heard of."""
    for member in group.members:  # type: ignore[attr-defined]  # each kind of group has its own message
        member.heartbeat_age_ms = ages_ms.get(member.member_id, -1)
    return group


def take_out_unknown(
    broker: Broker, topic: OffsetCommitRequestTopic, *, by_id: bool
) -> OffsetCommitResponseTopic | None:
    """Complete the topic's name; take what does not exist out of the request. The answer for that, if there is some."""
    known: TopicImage | None
    if by_id:
        known, error = broker.image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known, error = broker.image.topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        unknown, topic.partitions = indexes_of(topic), []
        return refused_partitions(topic, unknown, error)
    topic.name = known.name
    unknown = [index for index in indexes_of(topic) if index not in known.partitions]
    if not unknown:
        return None
    topic.partitions = [wanted for wanted in topic.partitions if wanted.partition_index in known.partitions]
    return refused_partitions(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def indexes_of(topic: OffsetCommitRequestTopic) -> list[int]:
    return [partition.partition_index for partition in topic.partitions]


def refused_partitions(
    topic: OffsetCommitRequestTopic, indexes: list[int], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=index, error_code=error) for index in indexes],
    )
