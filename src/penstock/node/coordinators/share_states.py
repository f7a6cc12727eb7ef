"""Requests about the share partitions of one group, to all who coordinate some of them, as if there were one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol
from uuid import UUID

from penstock.coordinator.effects import AtShareCoordinators
from penstock.coordinator.share.records import SharePartitionKey
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.controlling.topic_creation import create_missing
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.protocol.schema import Message

MOST_PARTITIONS: Final = 200
"""That one request is about, and that are looked up before others have their turn: some milliseconds."""

Place = tuple[UUID, int]


class Brokers(Protocol):
    """`Errands`."""

    async def ask_broker(self, broker_id: int, request: Any, answer: type[Any]) -> Any: ...


class ShareStates:
    def __init__(self, context: BrokerContext, brokers: Brokers) -> None:
        self._context = context
        self._brokers = brokers

    async def done(self, job: AtShareCoordinators) -> Message:
        """The results of what could not be asked have an error. The first that is asked creates the topic."""
        request: Any = job.request
        asked = {(topic.topic_id, data.partition): data for topic in request.topics for data in topic.partitions}
        places = list(asked)
        if places and SHARE_GROUP_STATE not in self._context.image.topics:
            context = self._context
            await create_missing(context.config, context.image, context.controller, [SHARE_GROUP_STATE])
        errors: dict[Place, ErrorCode] = {}
        by_broker: dict[int, list[Place]] = {}
        for number, place in enumerate(places):
            if number % MOST_PARTITIONS == MOST_PARTITIONS - 1:
                await asyncio.sleep(0)
            broker_id = _coordinator(self._context.image, SharePartitionKey(request.group_id, *place))
            if broker_id == NOBODY:
                errors[place] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                by_broker.setdefault(broker_id, []).append(place)
        parts = [(broker_id, part) for broker_id, them in by_broker.items() for part in _parts(them)]
        answers = await asyncio.gather(
            *(self._ask(broker_id, job, _about(request, asked, part)) for broker_id, part in parts)
        )
        results: dict[UUID, dict[int, Any]] = {}
        for (_, part), answer in zip(parts, answers, strict=True):
            if isinstance(answer, ErrorCode):
                errors |= dict.fromkeys(part, answer)
            else:
                for topic in answer.results:
                    results.setdefault(topic.topic_id, {}).update({it.partition: it for it in topic.partitions})
        return _one(job, places, results, errors)

    async def _ask(self, broker_id: int, job: AtShareCoordinators, request: Message) -> Any:
        try:
            return await self._brokers.ask_broker(broker_id, request, job.answer)
        except KafkaError as error:
            return error.code


def _coordinator(image: ClusterImage, key: SharePartitionKey) -> int:
    topic = image.topics.get(SHARE_GROUP_STATE)
    if topic is None or not topic.partitions:
        return NOBODY
    leader: int = topic.partitions[coordinator_partition(key.text, len(topic.partitions))].leader
    return leader


def _parts(places: list[Place]) -> Iterator[list[Place]]:
    for start in range(0, len(places), MOST_PARTITIONS):
        yield places[start : start + MOST_PARTITIONS]


def _about(request: Any, asked: dict[Place, Any], places: list[Place]) -> Message:
    """The same, about these alone."""
    of_topic = {topic.topic_id: topic for topic in request.topics}
    wanted: dict[UUID, list[Any]] = {}
    for place in places:
        wanted.setdefault(place[0], []).append(asked[place])
    topics = [of_topic[topic_id].replace(partitions=data) for topic_id, data in wanted.items()]
    message: Message = request.replace(topics=topics)
    return message


def _one(
    job: AtShareCoordinators, places: list[Place], results: dict[UUID, dict[int, Any]], errors: dict[Place, ErrorCode]
) -> Message:
    of_topic: Any = job.answer.__fields__["results"].kind
    of_partition: Any = of_topic.__fields__["partitions"].kind
    topics: dict[UUID, list[Any]] = {}

    def missing(topic_id: UUID, index: int) -> Any:
        error = errors.get((topic_id, index), ErrorCode.UNKNOWN_SERVER_ERROR)
        return of_partition(partition=index, error_code=error)

    for topic_id, those in groupby(places, key=itemgetter(0)):
        told = results.get(topic_id, {})
        found = [told[index] if index in told else missing(topic_id, index) for _, index in those]
        topics.setdefault(topic_id, []).extend(found)
    return job.answer(results=[of_topic(topic_id=topic, partitions=them) for topic, them in topics.items()])
