"""Steps of a produce request: who may write where, what is appended, what waits, and what an answer is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api.broker import produce as module
from penstock.node.api.broker.produce import ADMIN_CLIENT_ID, OF_LEADERS_MS
from penstock.node.partitions.partition import NotAppendingError
from penstock.node.serving.access import ALLOW_ALL, WRITE_TOPIC, WRITE_TRANSACTION
from penstock.node.serving.handler import CloseConnection
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS

TOPIC_ID = UUID(int=7)
FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


class Partition:
    is_internal = False

    def __init__(self, name: str = "t", *, high_watermark: int = 40, behind: bool = True) -> None:
        self.topic = name
        self.is_internal = name.startswith("__")
        self.committed = SimpleNamespace(high_watermark=high_watermark)
        self.behind = behind
        self.traffic = SimpleNamespace(failed_produces=0)
        self.error: KafkaError | None = None
        self.appended: list[Any] = []

    def append(self, records: Any, *, acks: int, now_ms: int, origin: Any) -> tuple[int, int, int, int, None]:
        if self.error is not None:
            raise self.error
        self.appended.append((bytes(records), acks, now_ms))
        return 40, 42, 5, 1, None

    def lacks(self, last_offset: int, acks: int) -> bool:
        return self.behind


class Made:
    """A node that leads `t` and more, and what is made of a request by a client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partitions: dict[tuple[Any, int], Partition] = {("t", 0): Partition(), ("t", 1): Partition()}
        self.failed: list[int] = []
        self.allowed: set[tuple[Any, str]] = set()
        self.lease = SimpleNamespace(is_over=False)
        self.checked: list[Partition] = []
        self.waiting: list[Any] = []
        self.broker: Any = SimpleNamespace(
            partitions=SimpleNamespace(get=lambda topic, index: self.partitions.get((topic, index))),
            partition=self._missing,
            topic_name={TOPIC_ID: "named"}.get,
            lease=self.lease,
            check_lease=self.checked.append,
            now_ms=lambda: 1_000,
        )
        self.context: Any = SimpleNamespace(
            api_version=9,
            correlation_id=5,
            client_id="c",
            authorizer=object(),
            allows=lambda right, name: (right, name) in self.allowed,
            counts=SimpleNamespace(failed=self.failed.append),
        )
        monkeypatch.setattr(module, "Refusals", lambda broker, context: self)
        monkeypatch.setattr(module, "Replicating", self._waits)
        monkeypatch.setattr(module, "Uncommitted", lambda *words: ("uncommitted", *words))
        monkeypatch.setattr(module, "encode_appended", lambda *words: ("appended", *words))
        monkeypatch.setattr(module, "encode_produce_response", lambda *words: ("whole", *words))
        self.is_over = False

    def _missing(self, topic: Any, index: int) -> Any:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _waits(self, refusals: Any, timeout_ms: int, answers: Any, pending: Any) -> Any:
        assert refusals is self
        self.waiting.append((timeout_ms, list(answers), list(pending)))
        return self

    def encode(self, topic: Any, index: int, error: KafkaError) -> Any:
        return topic, index, error.code

    def response(self, answers: Any = ()) -> Any:
        return ("told", *answers)

    def request(
        self, *batches: tuple[int, bytes | None], acks: int = -1, transactional_id: str | None = None, topic: Any = "t"
    ) -> Any:
        asked = transactional_id, acks, 300, [(topic, list(batches))], transactional_id is not None
        found: Any = module._Request(self.broker, self.context, cast("Any", asked))
        found.append(found.topics)
        return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made(monkeypatch)
    made.allowed.add((WRITE_TOPIC, "t"))
    return made


def answers(request: Any) -> list[Any]:
    return [one for _, done in request._answers for one in done]


@pytest.mark.parametrize(
    ("acks", "high_watermark", "behind", "waits"),
    [
        (-1, 42, True, True),
        (-1, 43, True, False),
        (-1, 42, False, False),
        (1, 42, True, True),
        (0, 42, True, False),
    ],
)
def test_what_is_new_and_wanted_is_waited_for(
    made: Made, acks: int, high_watermark: int, *, behind: bool, waits: bool
) -> None:
    partition = made.partitions["t", 1] = Partition(high_watermark=high_watermark, behind=behind)
    request = made.request((0, b"a"), (1, b"b"), acks=acks)
    assert partition.appended == [(b"b", acks, 1_000)]
    done = [("appended", 9, index, 40, 5, 1) for index in (0, 1)]
    assert answers(request) == done
    uncommitted = ("uncommitted", partition, "t", 1, 42, acks, done, 1)
    assert [one for one in request._pending if one[1] is partition] == [uncommitted] * waits
    assert request.is_done is (acks != 0 and not request._pending)


@pytest.mark.parametrize(("acks", "is_known"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_acks_that_there_are_not_are_refused(made: Made, acks: int, *, is_known: bool) -> None:
    request = made.request((0, b"a"), acks=acks)
    code = ErrorCode.INVALID_REQUIRED_ACKS
    assert answers(request) == ([("appended", 9, 0, 40, 5, 1)] if is_known else [("t", 0, code)])
    assert made.failed == ([] if is_known else [code])


@pytest.mark.parametrize("batch", [None, b""])
def test_a_partition_without_a_batch_is_refused(made: Made, batch: bytes | None) -> None:
    request = made.request((0, batch), (1, b"b"))
    assert answers(request) == [("t", 0, ErrorCode.INVALID_RECORD), ("appended", 9, 1, 40, 5, 1)]


def test_what_is_refused_is_counted_where_it_is(made: Made) -> None:
    made.partitions["t", 1].error = FULL
    request = made.request((0, b"a"), (1, b"b"), (2, b"c"))
    codes = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert answers(request)[1:] == [("t", 1, codes[0]), ("t", 2, codes[1])]
    assert made.failed == codes
    assert [one.traffic.failed_produces for one in made.partitions.values()] == [0, 1]
    assert request._failure == "t-1: KAFKA_STORAGE_ERROR", "the first one"


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("of_transaction", [None, True, False])
@pytest.mark.parametrize("asks", [True, False])
def test_who_may_write(made: Made, *, right: bool, of_transaction: bool | None, asks: bool) -> None:
    """Without acks that there are, too: who may not write is told just that."""
    made.allowed = {(WRITE_TOPIC, "t")} if right else set()
    if of_transaction:
        made.allowed.add((WRITE_TRANSACTION, "x"))
    if not asks:
        made.context.authorizer = ALLOW_ALL
    transactional_id = None if of_transaction is None else "x"
    request = made.request((0, b"a"), transactional_id=transactional_id)
    wrong = made.request((0, b"a"), transactional_id=transactional_id, acks=7)
    if of_transaction is False:
        expected: Any = ("t", 0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not right and asks:
        expected = ("t", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    else:
        expected = ("appended", 9, 0, 40, 5, 1)
    assert answers(request) == [expected]
    refused = ("t", 0, ErrorCode.INVALID_REQUIRED_ACKS)
    assert answers(wrong) == [refused if expected[0] == "appended" else expected]


def test_records_of_a_transaction_without_an_id_are_refused(made: Made) -> None:
    made.allowed |= {(WRITE_TRANSACTION, "x"), (WRITE_TRANSACTION, cast("Any", None))}
    assert module._refusal(made.context, "x") is None
    for other in (None, "y"):
        error = module._refusal(made.context, other)
        assert error is not None
        assert error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_by_which_name_a_right_is_asked_for(made: Made) -> None:
    made.allowed = {(WRITE_TOPIC, "named"), (WRITE_TOPIC, "t")}
    for topic, may in (("t", True), (TOPIC_ID, True), ("other", False), (UUID(int=9), True)):
        error = module._unwritable(made.broker, made.context, topic)
        assert (error is None) is may, "what has no name is refused elsewhere"


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("client_id", ["c", ADMIN_CLIENT_ID])
@pytest.mark.parametrize("name", ["t", CONSUMER_OFFSETS])
def test_which_partition_is_written_to(made: Made, name: str, client_id: str, *, is_late: bool) -> None:
    partition = made.partitions[name, 0] = Partition(name)
    made.context.client_id = client_id

    def found() -> Any:
        return module._partition(made.broker, made.context, name, 0, None, is_late)

    if name == "t" or client_id == ADMIN_CLIENT_ID:
        assert found() is partition
    else:
        with pytest.raises(KafkaError) as refused:
            found()
        assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert made.checked == [partition] * is_late
    with pytest.raises(KafkaError) as refused:
        module._partition(made.broker, made.context, name, 0, FULL, is_late)
    assert (refused.value, made.checked) == (FULL, [partition] * is_late)


@pytest.mark.parametrize(
    ("acks", "timeout_ms", "waits_ms"),
    [(-1, 300, 300), (1, 300, OF_LEADERS_MS), (1, OF_LEADERS_MS + 1, OF_LEADERS_MS + 1)],
)
@pytest.mark.parametrize("is_over", [True, False])
def test_how_long_an_answer_waits(made: Made, acks: int, timeout_ms: int, waits_ms: int, *, is_over: bool) -> None:
    made.is_over = is_over
    request = made.request((0, b"a"), acks=acks)
    request._timeout_ms = timeout_ms
    assert request.answer() == (("told",) if is_over else made)
    assert made.waiting == [(waits_ms, request._answers, request._pending)]
    assert not request.is_done


@pytest.mark.parametrize("fails", [True, False])
def test_an_answer_tells_of_leaders_where_something_is_refused(made: Made, *, fails: bool) -> None:
    for partition in made.partitions.values():
        partition.behind = False
    request = made.request((0, b"a"), (2, b"b") if fails else (1, b"b"))
    assert request.is_done
    told = ("told", *request._answers) if fails else ("whole", request._answers, 9, 5)
    assert request.answer() == told


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("holds", [True, False])
def test_without_acks_there_is_no_answer(made: Made, *, fails: bool, holds: bool) -> None:
    request = made.request((2, b"b") if fails else (0, b"a"), acks=0)
    request._pending += ["held"] * holds
    if fails:
        with pytest.raises(CloseConnection, match="acks=0 failed: t-2: UNKNOWN_TOPIC_OR_PARTITION"):
            request.answer()
    else:
        assert request.answer() is None
    assert made.waiting == [(300, [], ["held"])] * holds


@pytest.mark.parametrize("takes", [True, False, None])
@pytest.mark.parametrize("has_batch", [True, False])
@pytest.mark.parametrize("is_handed_over", [True, False])
def test_what_a_partition_that_is_handed_over_holds(
    made: Made, monkeypatch: pytest.MonkeyPatch, *, takes: bool | None, has_batch: bool, is_handed_over: bool
) -> None:
    monkeypatch.setattr(module, "Held", lambda *words: words)
    hand_over = None if takes is None else SimpleNamespace(takes=takes)
    partition: Any = SimpleNamespace(hand_over=hand_over)
    error = NotAppendingError(partition) if is_handed_over else FULL
    done: list[bytes] = [b"before"]
    batch = memoryview(b"records") if has_batch else None
    found: Any = module._held(made.broker, error, ("t", 0), batch, (-1, 300, None, 9), done)
    if takes and has_batch and is_handed_over:
        assert found == (made.broker, hand_over, partition, ("t", 0), b"records", (-1, 300, None, 9), done)
        assert done == [b"before", b""]
    else:
        assert (found, done) == (None, [b"before"])
