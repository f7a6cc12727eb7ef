"""DescribeShareGroupOffsets 0-1: where share groups begin in partitions, and how many records they are behind.

No list of topics asks for all that a group has begun to read. What it has not begun has no start offset, and is no
error. The lag is what lies between the start and the end of the partition, without what is delivered for good
(KIP-1226).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from penstock.coordinator.effects import AtShareCoordinators
from penstock.metadata.features import SHARE_VERSION
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import NAMES_A_STEP, named_once
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)

NOTHING: Final = -1
LATEST: Final = -1
CLIENT: Final = -1
"""No replica: the end is the high watermark."""

PARTITIONS_A_STEP: Final = 100

Topics = dict[str, dict[int, None]]
Place = tuple[str, int]
"""Topic and partition."""


def describe_share_group_offsets(
    broker: Broker, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Steps[DescribeShareGroupOffsetsResponse]:
    """However often a group is named, it is told of once, in all topics that are named with it."""
    answer, pace = DescribeShareGroupOffsetsResponse(), Pace(PARTITIONS_A_STEP)
    for group_id, wanted in (yield from _each_once(request.groups)).items():
        answer.groups.append((yield from _describe(broker, context, group_id, wanted, pace)))
        yield None
    return answer


def _each_once(groups: Iterable[DescribeShareGroupOffsetsRequestGroup]) -> Steps[dict[str, Topics | None]]:
    """None: all that it has begun to read."""
    found: dict[str, Topics | None] = {}
    pace = Pace(NAMES_A_STEP)
    for group in groups:
        wanted = found.setdefault(group.group_id, {})
        if group.topics is None:
            found[group.group_id] = None
        elif wanted is not None:
            yield from named_once(group.topics, _name, lambda topic: topic.partitions, wanted, pace)
        if pace.is_due():
            yield None
    return found


def _name(topic: DescribeShareGroupOffsetsRequestTopic) -> str:
    return topic.topic_name


def _describe(
    broker: Broker, context: RequestContext, group_id: str, asked: Topics | None, pace: Pace
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
    try:
        if not broker.image.features.get(SHARE_VERSION):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    if asked is None:
        begun = ((broker.topic_name(topic), list(found)) for topic, found in shard.machine.shared(group_id).items())
        wanted = {name: found for name, found in begun if name is not None and context.shows(DESCRIBE_TOPIC, name)}
    else:
        wanted = {name: list(indexes) for name, indexes in asked.items()}
    may_see = {name: context.allows(DESCRIBE_TOPIC, name) for name in wanted}
    seen = {name: found for name, found in wanted.items() if may_see[name] and name in broker.image.topics}
    summaries = yield _summaries(broker, group_id, seen)
    ends = yield _ends(broker, [place for place, found in summaries.items() if _has_lag(found)])
    for name, indexes in wanted.items():
        known = broker.image.topics.get(name)
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
        if known is not None and may_see[name]:
            topic.topic_id = known.topic_id
        for index in indexes:
            place = name, index
            told = _told(index, summaries.get(place), ends.get(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if not may_see[name]:
                told.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.partitions.append(told)
            if pace.is_due():
                yield None
        answer.topics.append(topic)
    return answer


def _told(
    index: int, summary: PartitionResult | None, end: int | ErrorCode
) -> DescribeShareGroupOffsetsResponsePartition:
    """A summary that the share coordinator refuses is one that is not there, as in Kafka."""
    told = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NOTHING)
    if summary is None or summary.error_code:
        return told
    told.start_offset, told.leader_epoch = summary.start_offset, max(summary.leader_epoch, 0)
    if not _has_lag(summary):
        return told
    if isinstance(end, ErrorCode):
        told.error_code = end
    else:
        told.lag = end - summary.start_offset - summary.delivery_complete_count
    return told


def _has_lag(summary: PartitionResult) -> bool:
    return not summary.error_code and summary.start_offset != NOTHING and summary.delivery_complete_count != NOTHING


async def _summaries(broker: Broker, group_id: str, wanted: dict[str, list[int]]) -> dict[Place, PartitionResult]:
    names = {broker.image.topics[name].topic_id: name for name in wanted}
    request = ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            ReadStateSummaryData(topic_id=topic, partitions=[PartitionData(partition=index) for index in wanted[name]])
            for topic, name in names.items()
        ],
    )
    job = AtShareCoordinators(request, ReadShareGroupStateSummaryResponse)
    answer = await broker.groups.context.errands.done(job)
    return {(names[topic.topic_id], found.partition): found for topic in answer.results for found in topic.partitions}


async def _ends(broker: Broker, places: Iterable[Place]) -> dict[Place, int | ErrorCode]:
    """Where the partitions end, or why nobody knows."""
    errands = broker.groups.context.errands
    ends: dict[Place, int | ErrorCode] = {}
    by_leader: dict[int, list[Place]] = {}
    for place in places:
        try:
            by_leader.setdefault(errands.leader_of(*place), []).append(place)
        except KafkaError as error:
            ends[place] = error.code
    answers = await asyncio.gather(*(_of_leader(errands, leader, them) for leader, them in by_leader.items()))
    for answer in answers:
        ends |= answer
    return ends


async def _of_leader(errands: Any, leader: int, places: list[Place]) -> dict[Place, int | ErrorCode]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    request = ListOffsetsRequest(
        replica_id=CLIENT, topics=[ListOffsetsTopic(name=name, partitions=them) for name, them in topics.items()]
    )
    try:
        answer = await errands.ask_broker(leader, request, ListOffsetsResponse)
    except KafkaError as error:
        return dict.fromkeys(places, error.code)
    return {
        (topic.name, found.partition_index): ErrorCode(found.error_code) if found.error_code else found.offset
        for topic in answer.topics
        for found in topic.partitions
    }
