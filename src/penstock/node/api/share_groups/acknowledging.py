"""What members say of records, in ShareFetch and ShareAcknowledge alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from penstock.node.api.partition_views import current_leader, endpoints_of
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Pace, Slices
from penstock.node.sharing.shares import AT_ONCE
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.failures import MOST_CHARACTERS
from penstock.sharing.sessions import SessionKey, TopicPartition
from penstock.sharing.values import AS_THE_GROUP, LONGEST_DELAY_MS, RENEW, Acknowledgement

T = TypeVar("T")
MOST_SAID: Final = 250
"""Types of acknowledgement, or delays, that are taken in one turn of the loop: 2 ms."""
RENEWALS_SINCE: Final = 2
LONGEST_MEMBER_ID: Final = 36
LEADER_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that tell clients the leader."""


Named = tuple[TopicPartition, Sequence[Any]]
"""A partition that a request names, and the batches of what it says of it; if these are many, some of them."""


def named_in(topics: Iterable[Any]) -> Iterator[Named]:
    """Of what is said of one partition no more at once than a turn of the loop takes."""
    for topic in topics:
        for it in topic.partitions:
            place, pace, some = TopicPartition(topic.topic_id, it.partition_index), Pace(AT_ONCE), list[Any]()
            for batch in it.acknowledgement_batches:
                for part in _parts(batch):
                    some.append(part)
                    if pace.is_due(_weight(part)):
                        yield place, some
                        some = []
            if some or not it.acknowledgement_batches:
                yield place, some


def _says(batch: Any) -> int:
    """How many things: one for all its records, or one for each."""
    return max(len(batch.acknowledge_types), len(batch.release_delays_ms), 1)


def _weight(batch: Any) -> int:
    """One that says `MOST_SAID` things takes as long as `AT_ONCE` others."""
    return max(_says(batch) * AT_ONCE // MOST_SAID, 1)


def _parts(batch: Any) -> Iterator[Any]:
    """Of one that says more than `MOST_SAID` things; one that makes no sense is refused as a whole."""
    says, types, delays_ms = _says(batch), batch.acknowledge_types, batch.release_delays_ms
    count, lengths = batch.last_offset - batch.first_offset + 1, {len(types), len(delays_ms)}
    if says <= MOST_SAID or count != says or not lengths <= {0, 1, says}:
        yield batch
        return
    for begin in range(0, says, MOST_SAID):
        end = min(begin + MOST_SAID, says)
        yield batch.replace(
            first_offset=batch.first_offset + begin,
            last_offset=batch.first_offset + end - 1,
            acknowledge_types=types[begin:end] if len(types) > 1 else types,
            release_delays_ms=delays_ms[begin:end] if len(delays_ms) > 1 else delays_ms,
        )


def is_wide(topics: Iterable[Any]) -> bool:
    """Whether a request names or says so much that it is taken in slices."""
    pace = Pace(AT_ONCE + 1)
    return any(pace.is_due(max(sum(map(_weight, batches)), 1)) for _, batches in named_in(topics))


async def name_in_slices(slices: Slices, topics: Iterable[Any], do: Callable[[Sequence[Named]], object]) -> None:
    some, pace = list[Named](), Pace(AT_ONCE)
    for named in named_in(topics):
        some.append(named)
        if pace.is_due(1 + sum(map(_weight, named[1]))):
            await slices.each(some, len(some), do)
            some = []
    if some:
        await slices.each(some, len(some), do)


async def in_slices(slices: Slices, things: Iterator[T], do: Callable[[Sequence[T]], object]) -> None:
    while some := list(islice(things, AT_ONCE)):
        await slices.each(some, AT_ONCE, do)


def check_asker(request: Any) -> SessionKey:
    """Whose session it is. KafkaError INVALID_REQUEST."""
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not request.member_id or len(request.member_id) > LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(request.group_id, request.member_id)


class Readable:
    """Which partitions a client may read; each topic is looked up once."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._refusals: dict[UUID, KafkaError | None] = {}

    def refusal(self, place: TopicPartition) -> KafkaError | None:
        topic_id = place.topic_id
        if topic_id not in self._refusals:
            self._refusals[topic_id] = self._refusal(topic_id)
        return self._refusals[topic_id]

    def _refusal(self, topic_id: UUID) -> KafkaError | None:
        name = self._broker.topic_name(topic_id)
        if name is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return None if self._context.allows(READ_TOPIC, name) else READ_TOPIC.refused()


class Acknowledging:
    """`refused` says what each partition's acknowledgements met, None where they hold, once `settled` is done.

    Of one partition all hold, or none; where that is more than one turn of the loop takes, of what one takes.
    """

    def __init__(self, broker: Broker, context: RequestContext, key: SessionKey, *, is_renewal: bool) -> None:
        self.refused: dict[TopicPartition, KafkaError | None] = {}
        self._broker = broker
        self.key = key
        self._newest = RENEW if context.api_version >= RENEWALS_SINCE else RENEW - 1
        self._is_renewal = is_renewal
        self._readable = Readable(broker, context)
        self._missing = 0
        self._settled: asyncio.Future[None] | None = None

    def say(self, some: Iterable[Named]) -> None:
        """What a request says of some partitions, if anything."""
        for place, batches in some:
            if batches:
                self._say(place, batches)

    def _say(self, place: TopicPartition, batches: Iterable[Any]) -> None:
        refusal = self._readable.refusal(place) or self._why_not(batches)
        if refusal is not None:
            self.refused[place] = refusal
            return
        said = [
            Acknowledgement(
                it.first_offset,
                it.last_offset,
                it.acknowledge_types,
                it.release_delays_ms,
                reason=it.reason[:MOST_CHARACTERS],
            )
            for it in batches
        ]
        self._missing += 1
        self._broker.sharing.acknowledge(self.key, place, said, partial(self._answered, place))

    def _why_not(self, batches: Iterable[Any]) -> KafkaError | None:
        before = -1
        for it in batches:
            first, last, types = it.first_offset, it.last_offset, it.acknowledge_types
            if not before <= first <= last:
                why = f"offsets {first} to {last} are not in order"
            elif not types or (len(types) > 1 and last - first + 1 != len(types)):
                why = f"{len(types)} types for offsets {first} to {last}"
            elif min(types) < 0 or max(types) > self._newest:
                why = "an unknown type of acknowledgement"
            elif RENEW in types and not self._is_renewal:
                why = "the request does not say that it renews"
            elif it.release_delays_ms and not _are_delays(it.release_delays_ms, last - first + 1):
                why = f"a delay for all records, or one for each, is -1 to {LONGEST_DELAY_MS} ms"
            else:
                before = last
                continue
            return KafkaError(ErrorCode.INVALID_REQUEST, why)
        return None

    def _answered(self, place: TopicPartition, error: KafkaError | None) -> None:
        self.refused[place] = error or self.refused.get(place)
        self._missing -= 1
        if not self._missing and self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    @property
    def is_settled(self) -> bool:
        return not self._missing

    async def settled(self) -> None:
        if self._missing:
            self._settled = asyncio.get_running_loop().create_future()
            await self._settled


def _are_delays(delays_ms: Sequence[int], count: int) -> bool:
    return len(delays_ms) in (1, count) and min(delays_ms) >= AS_THE_GROUP and max(delays_ms) <= LONGEST_DELAY_MS


class Telling:
    """The partitions of an answer, by topic, and who leads those that this node does not."""

    def __init__(self, broker: Broker, topic: type[Any], leader: type[Any]) -> None:
        self._broker = broker
        self._topic = topic
        self._leader = leader
        self._topics: dict[UUID, Any] = {}
        self._leaders: dict[int, None] = {}

    def tell(self, place: TopicPartition, result: Any, error: KafkaError | None) -> None:
        """`error` is what the partition met, if anything."""
        if error is not None and error.code in LEADER_MOVED:
            leader = current_leader(self._broker.image, *place)
            self._leaders[leader[0]] = None
            result.current_leader = self._leader(leader_id=leader[0], leader_epoch=leader[1])
        topic = self._topics.get(place.topic_id)
        if topic is None:
            topic = self._topics[place.topic_id] = self._topic(topic_id=place.topic_id)
        topic.partitions.append(result)

    @property
    def topics(self) -> list[Any]:
        return list(self._topics.values())

    def endpoints(self, listener: str, layout: type[Any]) -> list[Any]:
        """Where those leaders are."""
        found = endpoints_of(self._broker.image, listener, self._leaders)
        return [layout(node_id=it.node_id, host=it.host, port=it.port, rack=it.rack) for it in found]
