"""How the share coordinators of this node are asked: each share partition of a request by the one that has its key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.coordinator.effects import Effect
from penstock.coordinator.share.records import SharePartitionKey
from penstock.node.coordinators.hosted import Hosted
from penstock.node.roles.broker import Broker
from penstock.protocol.errors import KafkaError
from penstock.protocol.schema import Message
from penstock.protocol.value import Value


class StateApi(Value):
    """`event` is a method of `ShareShard`; the others are the layouts of what is told."""

    event: Callable[..., list[Effect]]
    partition: type[Message]
    topic: type[Message]
    response: type[Message]


def ask(broker: Broker, api: StateApi, request: Any) -> Any:
    """The response, or something to await. A request that names no group, or nothing in a topic, has an empty one."""
    if not request.group_id.strip() or not all(topic.partitions for topic in request.topics):
        return api.response()
    keys = [
        (SharePartitionKey(request.group_id, topic.topic_id, data.partition), data)
        for topic in request.topics
        for data in topic.partitions
    ]
    results: list[Any] = [None] * len(keys)
    places: dict[Hosted[Any], list[int]] = {}
    for place, (key, _) in enumerate(keys):
        try:
            places.setdefault(broker.shares.find(key.text), []).append(place)
        except KafkaError as error:
            results[place] = api.partition(partition=key.partition, error_code=error.code, error_message=error.message)
    waiting = []
    for hosted, of_it in places.items():

        def happen(token: object, asked: Any, now_ms: int, hosted: Hosted[Any] = hosted) -> list[Effect]:
            return api.event(hosted.machine, token, asked, now_ms)

        answer = hosted.ask(happen, [keys[place] for place in of_it])
        if isinstance(answer, Awaitable):
            waiting.append((answer, of_it))
        else:
            _put(results, of_it, answer)
    return _when_told(api, request, results, waiting) if waiting else _response(api, request, results)


def _put(results: list[Any], places: list[int], answer: list[Any]) -> None:
    for place, result in zip(places, answer, strict=True):
        results[place] = result


async def _when_told(
    api: StateApi, request: Any, results: list[Any], waiting: list[tuple[Awaitable[Any], list[int]]]
) -> Any:
    for answer, places in waiting:
        _put(results, places, await answer)
    return _response(api, request, results)


def _response(api: StateApi, request: Any, results: list[Any]) -> Any:
    left = iter(results)
    topics = [
        api.topic(topic_id=topic.topic_id, partitions=[next(left) for _ in topic.partitions])
        for topic in request.topics
    ]
    return api.response(results=topics)
