"""What a produce request waits for once it is appended: the in-sync replicas, or a leader that is just changing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.log.record_checks import InvalidRecords
from penstock.log.validation import AppendOrigin
from penstock.node.api.partition_views import current_leader, endpoints_of
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.late_answer import LateAnswer
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.produce import (
    LEADER_FROM,
    encode_appended,
    encode_appended_elsewhere,
    encode_produce_response,
    encode_refused,
)
from penstock.protocol.requests.topic_answers import NodeEndpoint
from penstock.replication.waits import Wait, Waits

if TYPE_CHECKING:
    from penstock.node.links.hand_over import HoldsBack

Answers = list[tuple[str | UUID, list[bytes]]]
How = tuple[int, int, str | None, int]
"""The acks and the time-out of a request, in ms, the transactional id that it names, and its version."""


class Unverified(NamedTuple):
    """A batch for a partition in which its transaction is not open, and where its answer goes."""

    topic: str | UUID
    partition: int
    batch: bytearray
    header: BatchHeader
    origin: AppendOrigin
    answers: list[bytes]


class Refusals:
    """The refusals of one request, with the leader where that is news (KIP-951)."""

    __slots__ = ("_broker", "_context", "_leaders")

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._leaders: dict[int, None] = {}

    @property
    def version(self) -> int:
        return self._context.api_version

    def encode(self, topic: str | UUID, index: int, error: KafkaError) -> bytes:
        version, leader = self._context.api_version, None
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADER_FROM:
            leader = self.leader(topic, index)
        record_errors = error.record_errors if isinstance(error, InvalidRecords) else ()
        return encode_refused(version, index, error.code, error.message or None, record_errors, leader)

    def leader(self, topic: str | UUID, index: int) -> tuple[int, int]:
        """The leader of a partition and its epoch; the response then has its address."""
        leader = current_leader(self._broker.image, topic, index)
        self._leaders[leader[0]] = None
        return leader

    def response(self, answers: Answers) -> list[bytes]:
        endpoints: Sequence[NodeEndpoint] = ()
        if self._leaders:
            endpoints = endpoints_of(self._broker.image, self._context.session.listener, self._leaders)
        return encode_produce_response(answers, self._context.api_version, self._context.correlation_id, endpoints)


class Replicating(LateAnswer[list[bytes]]):
    """A request that waits for the in-sync replicas (acks=-1), or for a new leader, at most as long as it says."""

    __slots__ = ("_answers", "_timer", "_uncommitted", "refusals")

    def __init__(
        self, refusals: Refusals, timeout_ms: int, answers: Answers, pending: Sequence[Uncommitted | Held]
    ) -> None:
        """`is_over` where nothing is left to wait for: `response` is the answer then."""
        super().__init__()
        self.refusals = refusals
        self._answers = answers
        self._timer = asyncio.get_running_loop().call_later(max(0, timeout_ms) / 1000, self._time_out)
        self._uncommitted: dict[Uncommitted | Held, None] = {}
        for one in pending:
            if one.begin(self):
                self._uncommitted[one] = None
        if self.is_over:
            self._timer.cancel()

    @property
    def is_over(self) -> bool:
        return not self._uncommitted

    def goes_on(self, one: Held, as_one: Uncommitted) -> None:
        """What was held is appended, and waits for the other replicas."""
        del self._uncommitted[one]
        as_one.begin(self)
        self._uncommitted[as_one] = None

    def answered(self, one: Uncommitted | Held) -> None:
        del self._uncommitted[one]
        if self.is_over:
            self._finish()

    def _time_out(self) -> None:
        for one in self._uncommitted:
            one.refuse(ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        self.call_off()
        self.tell(self.response())

    def response(self) -> list[bytes]:
        return self.refusals.response(self._answers)

    def call_off(self) -> None:
        self._timer.cancel()
        uncommitted, self._uncommitted = self._uncommitted, {}  # they refer to this object
        for one in uncommitted:
            one.cancel()


class Uncommitted:
    """What a request appended to one partition, until every in-sync replica has it.

    It waits from the append on: the request goes on with other partitions in later turns of the event loop, and
    replicas may have it before that is done.
    """

    __slots__ = (
        "_acks",
        "_answers",
        "_index",
        "_is_lost",
        "_last_offset",
        "_partition",
        "_place",
        "_request",
        "_topic",
        "_wait",
        "_waits",
    )

    def __init__(
        self,
        partition: Partition,
        topic: str | UUID,
        index: int,
        last_offset: int,
        acks: int,
        answers: list[bytes],
        place: int,
    ) -> None:
        """Its answer stands at `place` in `answers`."""
        self._request: Replicating | None = None
        self._partition = partition
        self._topic = topic
        self._index = index
        self._last_offset = last_offset
        self._acks = acks
        self._waits: Waits = partition.waits_of(acks)
        self._answers = answers
        self._place = place
        self._is_lost = False
        self._wait: Wait | None = self._waits.add(last_offset + 1, self)

    def __call__(self) -> None:
        """The wait is over."""
        self._wait = None  # it refers to this object
        leads = self._partition.leader is not None
        if leads and self._partition.lacks(self._last_offset, self._acks):  # it goes on leading in a new epoch
            self._wait = self._waits.add(self._last_offset + 1, self)
            return
        self._is_lost = not leads
        if self._request is not None:
            self._refuse_if_lost()
            self._request.answered(self)

    def begin(self, request: Replicating) -> bool:
        """Whether the request has to wait for it: it hears of the end."""
        self._request = request
        self._refuse_if_lost()
        return self._wait is not None

    def _refuse_if_lost(self) -> None:
        if self._is_lost:
            has_failed = self._partition.log.health.failure is not None
            self.refuse(ErrorCode.KAFKA_STORAGE_ERROR if has_failed else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refuse(self, code: ErrorCode) -> None:
        assert self._request is not None
        refusals = self._request.refusals
        self._answers[self._place] = refusals.encode(self._topic, self._index, KafkaError(code))

    def cancel(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            self._waits.cancel(wait)


class Held:
    """What a request has for a partition that is just handed over, until the old leader or the new one appends it."""

    __slots__ = (
        "_answers",
        "_broker",
        "_hand_over",
        "_index",
        "_place",
        "_request",
        "_topic",
        "acks",
        "partition",
        "records",
        "timeout_ms",
        "transactional_id",
        "version",
    )

    _request: Replicating

    def __init__(
        self,
        broker: Broker,
        hand_over: HoldsBack,
        partition: Partition,
        where: tuple[str | UUID, int],
        records: bytes,
        how: How,
        answers: list[bytes],
    ) -> None:
        """The last place in `answers` is kept for it."""
        self._broker = broker
        self._hand_over = hand_over
        self.partition = partition
        self._topic, self._index = where
        self.records = records
        self.acks, self.timeout_ms, self.transactional_id, self.version = how
        self._answers = answers
        self._place = len(answers) - 1

    @property
    def size(self) -> int:
        return len(self.records)

    def begin(self, request: Replicating) -> bool:
        """As `Uncommitted.begin`."""
        self._request = request
        self._hand_over.hold(self)
        return True

    def appended(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        """The new leader appended it; clients find that leader by this answer, if they can."""
        refusals = self._request.refusals
        self._answers[self._place] = encode_appended_elsewhere(
            refusals.version,
            self._index,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            refusals.leader(self._topic, self._index),
        )
        self._request.answered(self)

    def append(self) -> None:
        """This node stays the leader."""
        partition, request = self.partition, self._request
        try:
            appended = partition.append(
                memoryview(bytearray(self.records)), acks=self.acks, now_ms=self._broker.now_ms()
            )
        except KafkaError as error:
            self.refused(error)
            return
        base_offset, last_offset, time_ms, start_offset, _ = appended
        version = request.refusals.version
        self._answers[self._place] = encode_appended(version, self._index, base_offset, time_ms, start_offset)
        if self.acks and partition.lacks(last_offset, self.acks):
            where = self._topic, self._index, last_offset, self.acks, self._answers, self._place
            request.goes_on(self, Uncommitted(partition, *where))
        else:
            request.answered(self)

    def refused(self, error: KafkaError) -> None:
        """Neither leader appended it."""
        self._answers[self._place] = self._request.refusals.encode(self._topic, self._index, error)
        self._request.answered(self)

    def refuse(self, code: ErrorCode) -> None:
        """Answer with an error, with the rest of the request."""
        self._answers[self._place] = self._request.refusals.encode(self._topic, self._index, KafkaError(code))

    def cancel(self) -> None:
        self._hand_over.forget(self)
