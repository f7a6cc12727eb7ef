"""ShareFetch 1-2: a member says what became of records that it has, and gets others.

What it says is done before anything is fetched, and the answer waits for both. A request that finds less than
`min_bytes` waits up to `max_wait_ms`: for records, for those that come back, and for partitions that are still loading.
One that renews locks (KIP-1222) fetches nothing, so that it is answered soon.

With epoch 0 a session is opened, where there is room: if not, the answer waits as long as if there were no records.
With -1 it ends, and what the member still has is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.share_groups.acknowledging import (
    RENEWALS_SINCE,
    Acknowledging,
    Named,
    Readable,
    Telling,
    check_asker,
    in_slices,
    is_wide,
    name_in_slices,
    named_in,
)
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.sharing.fetching import Limits, ShareFetch
from penstock.node.sharing.shares import AT_ONCE
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from penstock.sharing.acquiring import Demand
from penstock.sharing.sessions import FINAL_EPOCH, FIRST_EPOCH, SessionKey, ShareSession, TopicPartition

RECORD_LIMIT = 1
"""The acquire mode in which a member gets not one record more than it asks for (KIP-1206)."""


def share_fetch(
    broker: Broker, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    try:
        if not broker.image.features.get(SHARE_VERSION):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        key = check_asker(request)
        _check(request, context.api_version)
        session = _session(broker, context, request, key)
    except KafkaError as error:
        refused = ShareFetchResponse(error_code=error.code, error_message=error.message)
        if error.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            return _later(refused, request.max_wait_ms)
        return refused
    return _Asked(broker, context, request, session).answer()


async def _later(refused: ShareFetchResponse, max_wait_ms: int) -> ShareFetchResponse:
    """A member without a session would ask again at once."""
    await asyncio.sleep(max_wait_ms / 1000)
    return refused


def _check(request: ShareFetchRequest, version: int) -> None:
    """KafkaError INVALID_REQUEST."""
    says = (it.acknowledgement_batches for topic in request.topics for it in topic.partitions)
    if request.share_session_epoch == FIRST_EPOCH and any(says):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "nothing can be acknowledged in the first request of a session")
    if request.share_acquire_mode not in (0, RECORD_LIMIT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown acquire mode {request.share_acquire_mode}")
    if version >= RENEWALS_SINCE and request.is_renew_ack:
        limits = {
            "maxBytes": request.max_bytes,
            "minBytes": request.min_bytes,
            "maxRecords": request.max_records,
            "maxWaitMs": request.max_wait_ms,
        }
        wrong = [name for name, value in limits.items() if value]
        if wrong:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(wrong)} must be 0 if isRenewAck is true")


def _session(broker: Broker, context: RequestContext, request: ShareFetchRequest, key: SessionKey) -> ShareSession:
    sharing, epoch = broker.sharing, request.share_session_epoch
    if epoch != FIRST_EPOCH:
        return sharing.sessions.at(key, epoch)
    connection_id = context.session.connection_id
    session = sharing.open(key, connection_id, f"{context.session.principal} at {context.session.client_host}")
    broker.gone[connection_id] = lambda: sharing.connection_gone(connection_id)
    return session


class _Asked:
    """A request of a session, until it is answered."""

    def __init__(
        self, broker: Broker, context: RequestContext, request: ShareFetchRequest, session: ShareSession
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._session = session
        self._is_final = request.share_session_epoch == FINAL_EPOCH
        self._saying = Acknowledging(broker, context, session.key, is_renewal=request.is_renew_ack)
        self._readable = Readable(broker, context)
        self._refused: dict[TopicPartition, KafkaError] = {}
        self._places: list[TopicPartition] = []
        self._throttle_ms = 0

    def answer(self) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
        request = self._request
        is_large = sum(len(topic.partitions) for topic in request.forgotten_topics_data) > AT_ONCE
        if is_large or is_wide(request.topics) or len(self._session.partitions) > AT_ONCE:
            return self._answer_wide()
        self._name(named_in(request.topics))
        self._forget(self._forgotten())
        limits = self._limits()
        if limits is not None:
            self._sort(self._session.rotated())
        fetch = self._begin(limits)
        is_done = fetch is None or bool(self._refused) or fetch.take(is_last=request.max_wait_ms <= 0)
        is_done = is_done or request.max_wait_ms <= 0
        if is_done and self._saying.is_settled and (fetch is None or fetch.is_counted):
            return self._answer(fetch)
        return self._when_done(fetch, waits=not is_done)

    async def _when_done(self, fetch: ShareFetch | None, *, waits: bool) -> ShareFetchResponse:
        if fetch is not None:
            if waits:
                await fetch.wait_and_take(self._broker.slices)
            await fetch.counted()
        await self._saying.settled()
        return self._answer(fetch)

    async def _answer_wide(self) -> ShareFetchResponse:
        slices = self._broker.slices
        await name_in_slices(slices, self._request.topics, self._name)
        await in_slices(slices, self._forgotten(), self._forget)
        limits = self._limits()
        if limits is not None:
            await in_slices(slices, iter(self._session.rotated()), self._sort)
        fetch = self._begin(limits)
        if fetch is not None and not self._refused:
            await fetch.wait_and_take(slices)
            await fetch.counted()
        await self._saying.settled()
        telling = self._telling()
        await in_slices(slices, self._to_tell(fetch), partial(self._tell, telling, fetch))
        return self._response(telling)

    def _name(self, some: Iterable[Named]) -> None:
        """Partitions that the request names: they belong to the session, and it may say something of them."""
        named = list(some)
        if not self._is_final:
            for place, _ in named:
                try:
                    self._broker.sharing.sessions.remember(self._session, place)
                except KafkaError as error:
                    self._refused[place] = error
        self._saying.say(named)

    def _forgotten(self) -> Iterator[TopicPartition]:
        for topic in self._request.forgotten_topics_data:
            for index in topic.partitions:
                yield TopicPartition(topic.topic_id, index)

    def _forget(self, some: Iterable[TopicPartition]) -> None:
        for place in some:
            self._broker.sharing.sessions.forget(self._session, place)

    def _limits(self) -> Limits | None:
        """Of what is to be fetched; None if that is nothing."""
        request, context = self._request, self._context
        if self._is_final or request.max_records <= 0 or request.max_bytes <= 0:
            return None
        most = min(request.max_bytes, self._broker.config.fetch_max_bytes)
        if context.charge is not None:
            self._throttle_ms = context.charge.fetch_owed_ms()
            if self._throttle_ms:
                return None
            most = min(most, context.charge.most_fetched)
        return Limits(request.max_wait_ms, min(request.min_bytes, most), most)

    def _sort(self, some: Iterable[TopicPartition]) -> None:
        """Which of the session's are to be fetched. Those that are refused stay: a client names each only once, and it
        may be that we have not heard of a topic yet, or of a right.
        """
        for place in some:
            refusal = self._readable.refusal(place)
            if refusal is None:
                self._places.append(place)
            else:
                self._refused[place] = refusal

    def _begin(self, limits: Limits | None) -> ShareFetch | None:
        key, request = self._session.key, self._request
        if self._is_final:
            self._broker.sharing.close(key)
        if limits is None or not self._places:
            return None
        is_strict = request.share_acquire_mode == RECORD_LIMIT
        demand = Demand(key.member_id, request.max_records, max(request.batch_size, 1), is_strict)
        return ShareFetch(self._broker.sharing, self._session, self._places, demand, limits)

    # the answer

    def _answer(self, fetch: ShareFetch | None) -> ShareFetchResponse:
        telling = self._telling()
        self._tell(telling, fetch, self._to_tell(fetch))
        return self._response(telling)

    def _telling(self) -> Telling:
        return Telling(self._broker, ShareFetchableTopicResponse, LeaderIdAndEpoch)

    def _to_tell(self, fetch: ShareFetch | None) -> Iterator[TopicPartition]:
        """Partitions of which there is news; and once those that are new in the session. Each is told once."""
        told = set[TopicPartition]()
        known = self._session.partitions
        news: list[Collection[TopicPartition]] = [self._refused, self._saying.refused]
        if fetch is not None:
            news += [fetch.taken, fetch.refused, [place for place, is_new in known.items() if is_new]]
        for place in chain.from_iterable(map(list, news)):
            if place in told:
                continue
            told.add(place)
            if fetch is not None and place in known:
                known[place] = place in fetch.refused
            yield place

    def _tell(self, telling: Telling, fetch: ShareFetch | None, some: Iterable[TopicPartition]) -> None:
        refused = {} if fetch is None else fetch.refused
        for place in some:
            result = PartitionData(partition_index=place.partition, records=b"")
            error = self._refused.get(place) or refused.get(place)
            if error is not None:
                result.error_code, result.error_message = error.code, error.message
                self._context.counts.failed(error.code)
            elif fetch is not None and place in fetch.taken:
                taken = fetch.taken[place]
                result.records = taken.records  # type: ignore[assignment]  # they may lie in a file
                result.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in taken.acquired
                ]
            not_acknowledged = self._saying.refused.get(place)
            if not_acknowledged is not None:
                result.acknowledge_error_code = not_acknowledged.code
                result.acknowledge_error_message = not_acknowledged.message
            telling.tell(place, result, error or not_acknowledged)

    def _response(self, telling: Telling) -> ShareFetchResponse:
        settings = self._broker.sharing.settings.of(self._session.key.group_id)
        return ShareFetchResponse(
            throttle_time_ms=self._throttle_ms,
            acquisition_lock_timeout_ms=settings.partitions.record_lock_duration_ms,
            responses=telling.topics,
            node_endpoints=telling.endpoints(self._context.session.listener, NodeEndpoint),
        )
