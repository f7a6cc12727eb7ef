"""Produce 3-13: append record batches to partitions that this node leads; topics by name, from version 13 by id.

acks=1 and acks=0 are done when the leader has written; acks=-1 when every in-sync replica has, which is at once where
the leader is the only one. Where `flush.messages` wants a flush, acks=1 and acks=-1 wait for it (`Partition.lacks`).
Where a storage group replicates, nothing is written before a majority has it on its disks:
acks=1 waits for that as well. acks=0 has no response, so an error closes the connection, as the only way to tell.

A batch of a transaction that is not open in its partition waits until the coordinator of the transaction has verified
it, or added the partition (`transactions/verification.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from mmap import mmap
from typing import Final, NoReturn
from uuid import UUID

from penstock.log.producer_state import UnverifiedError
from penstock.log.record_checks import UnlookedError
from penstock.log.validation import LOOKED_AT, PATIENT, AppendOrigin
from penstock.node.api.producing import Answers, Held, How, Refusals, Replicating, Uncommitted, Unverified
from penstock.node.partitions.partition import NotAppendingError, Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALLOW_ALL, WRITE_TOPIC, WRITE_TRANSACTION
from penstock.node.serving.frames import POOLED_FRAME_BYTES
from penstock.node.serving.handler import CloseConnection, RequestContext, handles
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.rules import Within
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError, TooManyItemsError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.produce import (
    Produced,
    encode_appended,
    encode_produce_response,
    parse_produce,
)

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics."""

WIDE = 200
"""A request of more topics and partitions is appended in slices, and so is one of more bytes than a buffer that is used
again."""
PARTITIONS_A_STEP = 25
BYTES_A_STEP = 1 << 18
OF_LEADERS_MS = 30_000
"""A time-out is for other replicas: acks=1 waits for a disk or a majority, of which Kafka's clients know nothing, at
least as long as they wait for an answer."""

Asked = tuple[str | UUID, Sequence[tuple[int, memoryview | None]]]


RULE: Final = (
    Within(WRITE_TRANSACTION, "for all records of a transaction"),
    Within(WRITE_TOPIC, "for each"),
)


@handles(
    ApiKey.PRODUCE,
    versions=(3, 13),
    rule=RULE,
    raw=True,
    pipelined=True,
)
def produce(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> list[bytes] | Awaitable[list[bytes] | None] | None:
    if len(frame) <= POOLED_FRAME_BYTES:
        try:
            asked = parse_produce(frame, position, context.api_version, most=WIDE)
        except TooManyItemsError:
            pass
        else:
            request = _Request(broker, context, asked)
            request.append(request.topics)
            is_waiting = request.unlooked or request.unverified
            return broker.slices.answer(request.rest()) if is_waiting else request.answer()
    kept = frame if isinstance(frame.obj, mmap) else memoryview(bytearray(frame))
    return broker.slices.answer(_produce_in_parts(broker, context, kept, position))


def _produce_in_parts(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> Steps[list[bytes] | None]:
    with broker.slices.memory.parked(len(frame)):
        parsed = broker.slices.taken_apart(partial(parse_produce, frame, position, context.api_version))
        request = _Request(broker, context, (yield parsed))
        yield from _appended(request)
    return (yield from request.rest())


def _appended(request: _Request) -> Steps[None]:
    """All of it, part by part."""
    part: list[tuple[str | UUID, list[tuple[int, memoryview | None]]]] = []
    count = size = 0
    for topic, asked in request.topics:
        for one in asked:
            if part and part[-1][0] is topic:
                part[-1][1].append(one)
            else:
                part.append((topic, [one]))
            count, size = count + 1, size + len(one[1] or b"")
            if count >= PARTITIONS_A_STEP or size >= BYTES_A_STEP:
                request.append(part)
                part, count, size = [], 0, 0
                yield None
    request.append(part)


class _Request:
    """What becomes of one request, partition by partition."""

    __slots__ = (
        "_acks",
        "_answers",
        "_broker",
        "_context",
        "_failure",
        "_pending",
        "_refusal",
        "_refusals",
        "_timeout_ms",
        "_transactional_id",
        "topics",
        "unlooked",
        "unverified",
    )

    def __init__(self, broker: Broker, context: RequestContext, asked: Produced) -> None:
        self._transactional_id, self._acks, self._timeout_ms, self.topics, is_transactional = asked
        self._broker = broker
        self._context = context
        self._refusal = _refusal(context, self._transactional_id) if is_transactional else None
        self._answers: Answers = []
        self._pending: list[Uncommitted | Held] = []
        self._refusals: Refusals | None = None
        self._failure: str | None = None
        self.unlooked: list[tuple[str | UUID, int, Callable[[], memoryview], list[bytes]]] = []
        """Batches whose records a thread must look at before they are appended, and where their answers go."""
        self.unverified: list[Unverified] = []
        """Batches about which the coordinator of their transaction must be asked before they are appended."""

    def append(
        self, topics: Iterable[Asked], origin: AppendOrigin = PATIENT, answers: list[bytes] | None = None
    ) -> None:
        """The lease and the time are those of now: much may have been done in between."""
        broker, context, acks = self._broker, self._context, self._acks
        version, is_late, now_ms, pending = context.api_version, broker.lease.is_over, broker.now_ms(), self._pending
        refusal, asks_rights = self._refusal, context.authorizer is not ALLOW_ALL
        transactional_id = self._transactional_id
        for topic, asked in topics:
            done: list[bytes] = [] if answers is None else answers
            if answers is None:
                self._answers.append((topic, done))
            unwritable = (refusal or _unwritable(broker, context, topic)) if asks_rights else refusal
            if unwritable is None and not -1 <= acks <= 1:
                unwritable = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
            for index, batch in asked:
                try:
                    partition = _partition(broker, context, topic, index, unwritable, is_late)
                    checked = batch or _no_batch()
                    appended = partition.append(checked, acks=acks, now_ms=now_ms, origin=origin)
                except UnverifiedError as error:
                    kept = Unverified(topic, index, bytearray(checked), error.header, origin, done)
                    self.unverified.append(kept)
                    continue
                except KafkaError as error:
                    how = acks, self._timeout_ms, transactional_id, version
                    held = _held(broker, error, (topic, index), batch, how, done)
                    if held is not None:
                        pending.append(held)
                    else:
                        self._refuse(topic, index, error, done)
                    continue
                except UnlookedError as unlooked:
                    self.unlooked.append((topic, index, unlooked.look, done))
                    continue
                base_offset, last_offset, time_ms, start_offset, _ = appended
                is_new = partition.committed.high_watermark <= last_offset
                if is_new and acks and partition.lacks(last_offset, acks):
                    pending.append(Uncommitted(partition, topic, index, last_offset, acks, done, len(done)))
                done.append(encode_appended(version, index, base_offset, time_ms, start_offset))

    def rest(self) -> Steps[list[bytes] | None]:
        """Append what was left to be looked at or verified, and answer."""
        for topic, index, look, answers in self.unlooked:
            try:
                self.append([(topic, [(index, (yield look))])], LOOKED_AT, answers)
            except KafkaError as error:
                self._failure = self._failure or _failure(topic, index, error)
                answers.append((yield partial(self.refusals.encode, topic, index, error)))
            yield None
        if self.unverified:
            yield from self._verified()
        if self.is_done and sum(len(done) for _, done in self._answers) > WIDE:
            encoded: list[bytes] = yield self.encoded
            return encoded
        answer = self.answer()
        return (yield answer) if isinstance(answer, LateAnswer) else answer

    def _verified(self) -> Steps[None]:
        from penstock.node.api.transactions.produced import verified  # most nodes have no transactions

        assert self._transactional_id is not None, "else its batches are refused"
        batches, self.unverified = self.unverified, []
        version = self._context.api_version
        yield from verified(self._broker, self._transactional_id, version, batches, self._append_verified, self._refuse)

    def _append_verified(self, one: Unverified) -> bool:
        self.append([(one.topic, [(one.partition, memoryview(one.batch))])], one.origin, one.answers)
        left, self.unverified = self.unverified, []
        return not left

    def _refuse(self, topic: str | UUID, index: int, error: KafkaError, answers: list[bytes]) -> None:
        self._failure = self._failure or _failure(topic, index, error)
        self._context.counts.failed(error.code)
        partition = self._broker.partitions.get(topic, index)
        if partition is not None:
            partition.traffic.failed_produces += 1
        answers.append(self.refusals.encode(topic, index, error))

    def answer(self) -> list[bytes] | LateAnswer[list[bytes]] | None:
        if self._acks == 0:
            _let_go(self.refusals, self._timeout_ms, self._pending, self._failure)
            return None
        if self._pending:
            timeout_ms = max(self._timeout_ms, OF_LEADERS_MS) if self._acks == 1 else self._timeout_ms
            waiting = Replicating(self.refusals, timeout_ms, self._answers, self._pending)
            return waiting.response() if waiting.is_over else waiting
        return self.encoded()

    @property
    def refusals(self) -> Refusals:
        """Made when it is first asked for: most requests need none."""
        if self._refusals is None:
            self._refusals = Refusals(self._broker, self._context)
        return self._refusals

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do but to answer."""
        return self._acks != 0 and not self._pending

    def encoded(self) -> list[bytes]:
        if self._failure is not None:
            return self.refusals.response(self._answers)
        return encode_produce_response(self._answers, self._context.api_version, self._context.correlation_id)


def _failure(topic: str | UUID, index: int, error: KafkaError) -> str:
    return f"{topic}-{index}: {ErrorCode(error.code).name}"


def _refusal(context: RequestContext, transactional_id: str | None) -> KafkaError | None:
    """Of a whole request with records of a transaction."""
    may_write = transactional_id is not None and context.allows(WRITE_TRANSACTION, transactional_id)
    return None if may_write else WRITE_TRANSACTION.refused()


def _unwritable(broker: Broker, context: RequestContext, topic: str | UUID) -> KafkaError | None:
    """The refusal where the client may not write to a topic; a missing topic is refused elsewhere."""
    name = topic if type(topic) is str else broker.topic_name(topic)
    return None if name is None or context.allows(WRITE_TOPIC, name) else WRITE_TOPIC.refused()


def _partition(
    broker: Broker,
    context: RequestContext,
    topic: str | UUID,
    index: int,
    refusal: KafkaError | None,
    is_late: bool,
) -> Partition:
    """KafkaError where the client may not append."""
    if refusal is not None:
        raise refusal
    partition = broker.partitions.get(topic, index) or broker.partition(topic, index)
    if is_late:
        broker.check_lease(partition)
    if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
        check_allowed(partition.topic, Act.PRODUCE)
    return partition


def _no_batch() -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request without a record batch")


def _let_go(refusals: Refusals, timeout_ms: int, held: Sequence[Uncommitted | Held], failure: str | None) -> None:
    """No client waits for a request with acks=0; an error closes the connection."""
    if held:
        Replicating(refusals, timeout_ms, [], held)
    if failure is not None:
        raise CloseConnection(f"produce with acks=0 failed: {failure}")


def _held(
    broker: Broker,
    error: KafkaError,
    where: tuple[str | UUID, int],
    batch: memoryview | None,
    how: How,
    answers: list[bytes],
) -> Held | None:
    """A batch that is refused because its partition is handed over, if that keeps it: its answer then has a place."""
    if not isinstance(error, NotAppendingError) or batch is None:
        return None
    hand_over = error.partition.hand_over
    if hand_over is None or not hand_over.takes:
        return None
    answers.append(b"")
    return Held(broker, hand_over, error.partition, where, bytes(batch), how, answers)
