"""Fetches records from the leaders of share partitions, and takes acknowledgements there: one request to a node at a
time.

Acknowledgements go with the next fetch, or by themselves where somebody waits for them, or where nothing is fetched. A
record is acknowledged to the node that has given it out: where another one leads by now they come to nothing, and the
records are given out again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final

from penstock.client.cluster import LED_ELSEWHERE, ClusterClient
from penstock.client.errors import ClientError, ConnectionFailedError, UnsupportedByBrokerError
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.acknowledgements import Acknowledgements, Place
from penstock.client.share.records import Delivered, delivered
from penstock.client.share.session import LOST, NOT_OPEN, ShareSession
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from penstock.protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from penstock.protocol.requests.api import ApiKey

logger = logging.getLogger(__name__)

MOST_BEFORE: Final = 10_000
"""Partitions that are remembered beside those that are assigned: the application may have records of the latest."""
RECORD_LIMIT: Final = "record_limit"
RENEWS_SINCE: Final = 2
"""The version of both requests with locks that are renewed, and with share.acquire.mode."""
PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Refusals of a partition after which its leader is looked up again."""

Failure = ClientError | KafkaError


class ShareRequests:
    """`on_done` hears of acknowledgements that were answered, or have failed; `on_news` of anything."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ShareConsumerSettings,
        new_session: Callable[[], ShareSession],
        held_of: Callable[[int], bool],
        on_done: Callable[[Sequence[Acknowledgements]], None],
        on_news: Callable[[], None],
    ) -> None:
        """`held_of`: whether the application has not finished with something that a node has given out."""
        self._cluster = cluster
        self._settings = settings
        self._new_session = new_session
        self._held_of = held_of
        self._on_done = on_done
        self._on_news = on_news
        self._sessions: dict[int, ShareSession] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, list[Acknowledgements]] = {}
        self._pausing: dict[Acknowledgements, asyncio.TimerHandle] = {}
        """Those that are tried again in a while."""
        self._open: dict[Acknowledgements, None] = {}
        """All of which nobody has been told yet."""
        self._assigned: dict[Place, TopicPartition] = {}
        self._names: dict[Place, TopicPartition] = {}
        """Also of partitions that were assigned before; the latest stand behind."""
        self._fetched: deque[Delivered] = deque()
        self._fetching: dict[int, int] = {}
        """By node, in which order they were asked for records last."""
        self._error: Exception | None = None
        self._wants_records = self._is_closing = False
        self._failures = 0
        self._looking: asyncio.Task[None] | None = None
        self.topics: Collection[str] = ()
        """Those of the subscription."""
        self.lock_timeout_ms: int | None = None
        """How long a record is this member's, as brokers said last."""

    # What the consumer wants

    def assign(self, assigned: Mapping[Place, TopicPartition]) -> None:
        self._assigned = dict(assigned)
        self._names = {place: name for place, name in self._names.items() if place not in assigned} | self._assigned
        under_way = {one.place for one in self._open} | {one.place for one in self._fetched}
        for place in list(self._names)[: -(MOST_BEFORE + len(assigned))]:
            if place not in under_way:
                del self._names[place]

    def acknowledge(self, some: Collection[Acknowledgements]) -> None:
        """They go with the next request to their nodes."""
        deadline_s = asyncio.get_running_loop().time() + self._settings.default_api_timeout_ms / 1000
        for one in some:
            one.deadline_s = one.deadline_s or deadline_s
            self._open[one] = None
            self._waiting.setdefault(one.node_id, []).append(one)

    def take(self, limit: int) -> list[Delivered]:
        """What was fetched, at least `limit` records if there are as many. Raises the error of a failed fetch."""
        taken: list[Delivered] = []
        count = 0
        while self._fetched and count < limit:
            taken.append(self._fetched.popleft())
            count += len(taken[-1].records)
            self._error = self._error or taken[-1].error
        if not taken and self._error is not None:
            error, self._error = self._error, None
            raise error
        return taken

    def send(self, *, wants_records: bool) -> None:
        """To each node that is idle: acknowledgements, and if they are wanted a question for records."""
        self._wants_records = wants_records
        leaders = self._by_leader()
        nodes = dict.fromkeys([*leaders, *self._sessions, *self._waiting])
        for node_id in sorted(nodes, key=lambda one: self._fetching.get(one, 0)):
            if node_id not in self._requests:
                self._send_to(node_id, leaders.get(node_id, []))

    def unsubscribe(self) -> None:
        """Nothing is wanted, nor what was fetched and not taken: sessions are closed, and brokers release it."""
        self.topics = ()
        self.assign({})
        self._go_on_without()

    def _go_on_without(self) -> None:
        self._fetched.clear()
        self.send(wants_records=False)

    def name_of(self, place: Place) -> TopicPartition:
        return self._names[place]

    async def close(self) -> None:
        """Send what waits, and close the sessions: brokers release what this member has. The caller sets a limit."""
        self._is_closing = True
        self._wants_records = False
        self._fetched.clear()
        if self._requests:
            await asyncio.wait(list(self._requests.values()))
        for one in self._not_paused():
            self._waiting.setdefault(one.node_id, []).append(one)
        for node_id in list(self._sessions):
            if self._sessions[node_id].is_open:
                self._start(node_id, self._acknowledge(node_id, self._taken(node_id), closes=True))
        if self._requests:
            await asyncio.wait(list(self._requests.values()))

    async def abandon(self) -> None:
        tasks = [*self._requests.values(), *([self._looking] if self._looking is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._not_paused()
        error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "there was no answer before the consumer was closed")
        self._done(list(self._open), error)

    def _not_paused(self) -> list[Acknowledgements]:
        """Those that were to be tried again."""
        pausing, self._pausing = self._pausing, {}
        for timer in pausing.values():
            timer.cancel()
        return list(pausing)

    # Which request goes where

    def _by_leader(self) -> dict[int, list[Place]]:
        leaders: dict[int, list[Place]] = {}
        unknown = False
        for place, partition in self._assigned.items():
            row = self._cluster.metadata.leader(partition)
            if row is None:
                unknown = True
            else:
                leaders.setdefault(row.leader, []).append(place)
        if unknown:
            self.look_again_soon()
        return leaders

    def _send_to(self, node_id: int, wanted: list[Place]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            if not wanted and node_id not in self._waiting:
                return
            session = self._sessions[node_id] = self._new_session()
        some = self._taken(node_id)
        renews = any(one.renews for one in some)
        if self._wants_records and wanted and not renews and self._may_fetch():
            self._fetching[node_id] = max(self._fetching.values(), default=0) + 1
            self._start(node_id, self._fetch(node_id, wanted, some))
        elif some:
            self._start(node_id, self._acknowledge(node_id, some))
        elif session.is_open and not wanted and not self._holds(node_id):
            self._start(node_id, self._acknowledge(node_id, [], closes=True))
        elif not session.is_open and not wanted:
            del self._sessions[node_id]
            self._fetching.pop(node_id, None)

    def _may_fetch(self) -> bool:
        """With a limit of records one node is asked at a time: what several gave would be more."""
        return self._settings.share_acquire_mode != RECORD_LIMIT or not self._requests

    def _holds(self, node_id: int) -> bool:
        return self._held_of(node_id) or any(one.node_id == node_id for one in self._fetched)

    def _taken(self, node_id: int) -> list[Acknowledgements]:
        """What waits for a node; what has come to nothing is told."""
        now_s = asyncio.get_running_loop().time()
        good: list[Acknowledgements] = []
        for one in self._waiting.pop(node_id, []):
            error = self._why_not(one, now_s)
            if error is None:
                good.append(one)
            else:
                self._done([one], error)
        return good

    def _why_not(self, one: Acknowledgements, now_s: float) -> Failure | None:
        partition = self._names[one.place]
        row = self._cluster.metadata.leader(partition)
        if row is not None and row.leader != one.node_id:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} has another leader by now")
        if not self._sessions[one.node_id].is_open:
            return KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"the session with node {one.node_id} was lost, and its records with it"
            )
        if now_s >= one.deadline_s:
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: not within default.api.timeout.ms")
        return None

    def _start(self, node_id: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"share requests to node {node_id}")
        self._requests[node_id] = task

        def ended(finished: asyncio.Task[None]) -> None:
            del self._requests[node_id]
            if not self._is_closing and not self.topics:
                self._go_on_without()
            elif not self._is_closing and self._waiting.get(node_id):
                self.send(wants_records=self._wants_records)
            self._ended(finished)

        task.add_done_callback(ended)

    def _ended(self, finished: asyncio.Task[None]) -> None:
        if not finished.cancelled() and finished.exception() is not None:
            self._error = self._error or finished.exception()  # type: ignore[assignment]
        self._on_news()

    # The requests

    async def _fetch(self, node_id: int, wanted: Sequence[Place], some: list[Acknowledgements]) -> None:
        session, settings = self._sessions[node_id], self._settings
        limits = ShareFetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
            share_acquire_mode=int(settings.share_acquire_mode == RECORD_LIMIT),
        )
        try:
            connection = await self._cluster.connection(node_id)
            response = await connection.request(
                session.fetch_request(wanted, some, limits),
                ShareFetchResponse,
                timeout_ms=settings.request_timeout_ms + settings.fetch_max_wait_ms,
            )
        except ClientError as error:
            await self._lost(session, some, error)
            return
        if not await self._is_good(session, some, response.error_code, response.error_message):
            return
        self._note_lock(response.acquisition_lock_timeout_ms)
        rows = {(topic.topic_id, row.partition_index): row for topic in response.responses for row in topic.partitions}
        codes = {place: (row.acknowledge_error_code, row.acknowledge_error_message) for place, row in rows.items()}
        self._answered(some, codes)
        moved = self._learn(node_id, rows, response.node_endpoints)
        for place, row in rows.items():
            if place in self._names and not row.error_code:
                self._take_in(node_id, place, row)
        if moved:
            await self._look_again()
        else:
            self._failures = 0

    async def _acknowledge(self, node_id: int, some: list[Acknowledgements], *, closes: bool = False) -> None:
        session = self._sessions[node_id]
        try:
            connection = await self._cluster.connection(node_id)
            if any(one.renews for one in some) and connection.version_for(ApiKey.SHARE_ACKNOWLEDGE) < RENEWS_SINCE:
                self._done(some, UnsupportedByBrokerError(f"{connection.address} renews no locks (KIP-1222)"))
                return
            response = await connection.request(
                session.acknowledge_request(some, closes=closes), ShareAcknowledgeResponse
            )
        except ClientError as error:
            await self._lost(session, some, error)
            return
        if closes:
            session.lost()
        elif not await self._is_good(session, some, response.error_code, response.error_message):
            return
        self._note_lock(response.acquisition_lock_timeout_ms)
        rows = {(topic.topic_id, row.partition_index): row for topic in response.responses for row in topic.partitions}
        codes = {place: (row.error_code, row.error_message) for place, row in rows.items()}
        self._answered(some, codes, may_try_again=not closes)
        if not closes and self._learn(node_id, rows, response.node_endpoints):
            await self._look_again()

    # What comes back

    async def _lost(self, session: ShareSession, some: Sequence[Acknowledgements], error: ClientError) -> None:
        session.lost()
        self._done(some, error)
        if not isinstance(error, ConnectionFailedError):
            raise error
        await self._look_again()

    async def _is_good(
        self, session: ShareSession, some: Sequence[Acknowledgements], number: int, message: str | None
    ) -> bool:
        """What is refused as a whole is told, and may pass."""
        code = ErrorCode(number)
        session.answered(code)
        if code is ErrorCode.NONE:
            return True
        error = KafkaError(code, message)
        self._done(some, KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) if code in LOST else error)
        if code not in NOT_OPEN and code not in PASSING and not error.retriable:
            raise error
        await self._look_again()
        return False

    def _answered(
        self,
        some: Sequence[Acknowledgements],
        codes: Mapping[Place, tuple[int, str | None]],
        *,
        may_try_again: bool = False,
    ) -> None:
        """What the answer does not name has not been taken. Refusals that may pass are tried again."""
        for one in some:
            number, message = codes.get(one.place, (int(ErrorCode.INVALID_RECORD_STATE), "not in the broker's answer"))
            error = KafkaError(ErrorCode(number), message) if number else None
            if may_try_again and error is not None and error.retriable and error.code not in PASSING:
                self._try_again(one)
            else:
                self._done([one], error)

    def _try_again(self, one: Acknowledgements) -> None:
        one.failures += 1
        pause_s = self._settings.backoff_ms(one.failures) / 1000

        def again() -> None:
            del self._pausing[one]
            self._waiting.setdefault(one.node_id, []).append(one)
            if not self._is_closing:
                self.send(wants_records=self._wants_records)

        self._pausing[one] = asyncio.get_running_loop().call_later(pause_s, again)

    def _done(self, some: Sequence[Acknowledgements], error: Failure | None) -> None:
        for one in some:
            one.done(error)
            self._open.pop(one, None)
        if some:
            self._on_done(some)

    def _note_lock(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self.lock_timeout_ms = timeout_ms

    def _learn(self, node_id: int, rows: Mapping[Place, Any], endpoints: Sequence[Any]) -> bool:
        """Take in which leaders are named; whether some have to be looked up. Errors that do not pass are kept."""
        refused = {place: row for place, row in rows.items() if row.error_code and place in self._names}
        told = {
            self._names[place]: row.current_leader for place, row in refused.items() if row.error_code in LED_ELSEWHERE
        }
        learned = self._cluster.learn(node_id, told, endpoints)
        for place, row in refused.items():
            code = ErrorCode(row.error_code)
            if code not in PASSING and code is not ErrorCode.INVALID_RECORD_STATE:
                self._error = self._error or KafkaError(code, f"{self._names[place]}: {row.error_message or code.name}")
        return any(row.error_code in PASSING and self._names[place] not in learned for place, row in refused.items())

    def _take_in(self, node_id: int, place: Place, row: PartitionData) -> None:
        if not row.acquired_records:
            return
        partition, check_crcs = self._names[place], self._settings.check_crcs
        try:
            found = delivered(
                node_id, place, partition, row.records or b"", row.acquired_records, check_crcs=check_crcs
            )
        except DecodeError as error:
            self._error = self._error or error
            return
        self._fetched.append(found)
        self._wants_records = False

    # Leaders

    def look_again_soon(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again(), name="look for leaders of share partitions")
            self._looking.add_done_callback(self._ended)

    async def _look_again(self) -> None:
        if self._is_closing:
            return
        self._failures += 1
        await asyncio.sleep(self._settings.backoff_ms(self._failures - 1) / 1000)
        try:
            await self._cluster.refresh(self.topics)
        except ConnectionFailedError:
            pass  # the next attempt says so
