"""What becomes of a produce request that waits: for the other replicas, for a new leader, or until its time is up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api import producing
from penstock.node.api.producing import Held, Refusals, Replicating, Uncommitted
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.produce import LEADER_FROM

LOST = ErrorCode.NOT_LEADER_OR_FOLLOWER
FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


class Said:
    """In the place of `Refusals`."""

    version = 9

    def encode(self, topic: str, index: int, error: KafkaError) -> Any:
        return topic, index, error.code

    def leader(self, topic: str, index: int) -> tuple[int, int]:
        return 7, index

    def response(self, answers: Any) -> Any:
        return [("whole", list(answers))]


class Partition:
    """Of a log that has failed or not; `behind` is whether replicas lack what was appended."""

    def __init__(self, *, behind: bool = True) -> None:
        self.leader: object | None = object()
        self.behind = behind
        self.log = SimpleNamespace(health=SimpleNamespace(failure=None))
        self.waits: list[tuple[int, Any]] = []
        self.cancelled: list[Any] = []
        self.error: KafkaError | None = None
        self.asked: list[Any] = []

    def waits_of(self, acks: int) -> Any:
        self.asked.append(("waits", acks))
        return self

    def add(self, offset: int, told: Any) -> Any:
        self.waits.append((offset, told))
        return self.waits[-1]

    def cancel(self, wait: Any) -> None:
        self.cancelled.append(wait)

    def lacks(self, last_offset: int, acks: int) -> bool:
        self.asked.append(("lacks", last_offset, acks))
        return self.behind

    def append(self, records: memoryview, *, acks: int, now_ms: int) -> tuple[int, int, int, int, None]:
        if self.error is not None:
            raise self.error
        self.asked.append(("append", bytes(records), acks, now_ms))
        return 40, 42, 5, 1, None

    def wake(self) -> None:
        """All that wait are told."""
        waits, self.waits = self.waits, []
        for _, told in waits:
            told()


class HandOver:
    def __init__(self) -> None:
        self.held: list[Held] = []
        self.forgotten: list[Held] = []

    def hold(self, one: Held) -> None:
        self.held.append(one)

    def forget(self, one: Held) -> None:
        self.forgotten.append(one)


def uncommitted(partition: Partition, answers: list[Any], *, acks: int = -1) -> Uncommitted:
    """Its answer is in the last place."""
    answers.append("appended")
    place = len(answers) - 1
    return Uncommitted(cast("Any", partition), "t", place, 42, acks, cast("Any", answers), place)


def held(partition: Partition, hand_over: HandOver, answers: list[Any], *, acks: int = -1) -> Held:
    answers.append("held")
    broker: Any = SimpleNamespace(now_ms=lambda: 1_000)
    where = "t", len(answers) - 1
    of: Any = (broker, hand_over, partition, where, b"records", (acks, 300, None, 9), answers)
    return Held(*of)


def replicating(answers: list[Any], *pending: Any, timeout_ms: int = 60_000) -> tuple[Any, list[Any]]:
    """And what it tells."""
    told: list[Any] = []
    made: Any = Replicating(cast("Any", Said()), timeout_ms, cast("Any", answers), pending)
    made.listen(SimpleNamespace(told=told.append, failed=told.append))
    return made, told


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "encode_appended", lambda *words: ("appended", *words))
    monkeypatch.setattr(producing, "encode_appended_elsewhere", lambda *words: ("elsewhere", *words))


def refused(place: int, code: ErrorCode) -> tuple[str, int, ErrorCode]:
    return "t", place, code


async def test_it_is_told_when_the_last_one_has_it() -> None:
    partitions, answers = [Partition(), Partition()], list[Any]()
    made, told = replicating(answers, *(uncommitted(one, answers) for one in partitions))
    assert [one.waits[0][0] for one in partitions] == [43, 43]
    for one, expected in zip(partitions, ([], [[("whole", ["appended"] * 2)]]), strict=True):
        assert not made.is_over
        one.behind = False
        one.wake()
        assert told == expected
    assert (made.is_over, made._timer.cancelled()) == (True, True)
    assert [one.cancelled for one in partitions] == [[], []]


async def test_it_may_be_awaited() -> None:
    partition, answers = Partition(behind=False), list[Any]()
    made: Any = Replicating(cast("Any", Said()), 60_000, cast("Any", answers), [uncommitted(partition, answers)])
    partition.wake()
    assert await made == [("whole", ["appended"])]


async def test_who_goes_on_leading_waits_on() -> None:
    partition, answers = Partition(), list[Any]()
    made, told = replicating(answers, uncommitted(partition, answers, acks=3))
    partition.wake()
    assert (made.is_over, told, [offset for offset, _ in partition.waits]) == (False, [], [43])
    assert partition.asked == [("waits", 3), ("lacks", 42, 3)]
    partition.behind = False
    partition.wake()
    assert told == [[("whole", ["appended"])]]


@pytest.mark.parametrize(("failure", "code"), [(None, LOST), (OSError(), ErrorCode.KAFKA_STORAGE_ERROR)])
@pytest.mark.parametrize("behind", [True, False])
@pytest.mark.parametrize("begins_before", [True, False])
async def test_what_a_leader_had_that_leads_no_more_is_refused(
    failure: Exception | None, code: ErrorCode, *, behind: bool, begins_before: bool
) -> None:
    """Even if the replicas have it."""
    partition, answers = Partition(behind=behind), list[Any]()
    one = uncommitted(partition, answers)
    made, told = replicating(answers, one) if begins_before else (None, [])
    partition.leader, partition.log.health.failure = None, failure
    partition.wake()
    if made is None:
        made, told = replicating(answers, one)
        assert (made.is_over, told, made.response()) == (True, [], [("whole", [refused(0, code)])])
        assert made._timer.cancelled()
    else:
        assert told == [[("whole", [refused(0, code)])]]


async def test_what_replicas_have_before_the_request_waits_is_not_waited_for() -> None:
    partitions, answers = [Partition(behind=False), Partition()], list[Any]()
    pending = [uncommitted(one, answers) for one in partitions]
    partitions[0].wake()
    made, told = replicating(answers, *pending)
    assert (made.is_over, made._timer.cancelled(), told) == (False, False, [])
    partitions[1].behind = False
    partitions[1].wake()
    assert told == [[("whole", ["appended"] * 2)]]


async def test_when_the_time_is_up_what_is_left_is_refused() -> None:
    partition, other, hand_over, answers = Partition(), Partition(behind=False), HandOver(), list[Any]()
    pending = [uncommitted(partition, answers), uncommitted(other, answers), held(partition, hand_over, answers)]
    made, told = replicating(answers, *pending)
    other.wake()
    made._time_out()
    late = ErrorCode.REQUEST_TIMED_OUT
    assert told == [[("whole", [refused(0, late), "appended", refused(2, late)])]]
    assert (made.is_over, made._timer.cancelled(), len(partition.cancelled)) == (True, True, 1)
    assert (other.cancelled, hand_over.forgotten) == ([], [pending[2]])


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(-5, 0), (0, 0), (30_000, 30)])
async def test_it_waits_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch, timeout_ms: int, seconds: int) -> None:
    delays: list[float] = []
    timer = SimpleNamespace(cancel=lambda: None)

    def call_later(delay_s: float, what: object) -> Any:
        delays.append(delay_s)
        return timer

    loop = SimpleNamespace(call_later=call_later)
    asyncio: Any = SimpleNamespace(get_running_loop=lambda: loop)
    monkeypatch.setattr(producing, "asyncio", asyncio)
    answers: list[Any] = []
    replicating(answers, uncommitted(Partition(), answers), timeout_ms=timeout_ms)
    assert delays == [seconds]


async def test_who_goes_is_told_nothing() -> None:
    partition, hand_over, answers = Partition(), HandOver(), list[Any]()
    made, told = replicating(answers, uncommitted(partition, answers), held(partition, hand_over, answers))
    made.call_off()
    made.call_off()
    assert (told, made.is_over, made._timer.cancelled()) == ([], True, True)
    assert (len(partition.cancelled), len(hand_over.forgotten)) == (1, 1)


# -- what is held while a partition is handed over --------------------------------------------------------------------


async def test_what_is_held_is_appended_by_the_new_leader() -> None:
    partition, hand_over, answers = Partition(), HandOver(), list[Any](["before"])
    one = held(partition, hand_over, answers)
    made, told = replicating(answers, one)
    assert (hand_over.held, one.size, made.is_over) == ([one], 7, False)
    one.appended(50, 5, 1)
    assert told == [[("whole", ["before", ("elsewhere", 9, 1, 50, 5, 1, (7, 1))])]]


@pytest.mark.parametrize(("acks", "behind", "waits"), [(-1, True, True), (-1, False, False), (0, True, False)])
async def test_what_is_held_is_appended_here_where_the_leader_stays(acks: int, *, behind: bool, waits: bool) -> None:
    partition, hand_over, answers = Partition(behind=behind), HandOver(), list[Any]()
    one = held(partition, hand_over, answers, acks=acks)
    made, told = replicating(answers, one)
    one.append()
    assert partition.asked[0] == ("append", b"records", acks, 1_000)
    whole = [("whole", [("appended", 9, 0, 40, 5, 1)])]
    assert (made.is_over, told) == (not waits, [] if waits else [whole])
    if waits:
        assert [offset for offset, _ in partition.waits] == [43]
        partition.behind = False
        partition.wake()
        assert told == [whole]
    assert hand_over.forgotten == []


async def test_what_nobody_appends_is_refused() -> None:
    partition, hand_over, answers = Partition(), HandOver(), list[Any]()
    first, second = held(partition, hand_over, answers), held(partition, hand_over, answers)
    _, told = replicating(answers, first, second)
    first.refused(KafkaError(LOST))
    assert told == []
    partition.error = FULL
    second.append()
    assert told == [[("whole", [refused(0, LOST), refused(1, ErrorCode.KAFKA_STORAGE_ERROR)])]]


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "version", "is_told"),
    [
        (LOST, LEADER_FROM, True),
        (LOST, LEADER_FROM + 1, True),
        (LOST, LEADER_FROM - 1, False),
        (ErrorCode.FENCED_LEADER_EPOCH, LEADER_FROM, False),
    ],
)
def test_the_leader_is_told_to_who_can_read_it(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, version: int, *, is_told: bool
) -> None:
    monkeypatch.setattr(producing, "current_leader", lambda image, topic, index: (7, 3))
    monkeypatch.setattr(producing, "endpoints_of", lambda image, listener, leaders: [(listener, *leaders)])
    monkeypatch.setattr(producing, "encode_refused", lambda *words: words)
    monkeypatch.setattr(producing, "encode_produce_response", lambda *words: words)
    context = SimpleNamespace(api_version=version, correlation_id=5, session=SimpleNamespace(listener="L"))
    refusals: Any = Refusals(cast("Any", SimpleNamespace(image=None)), cast("Any", context))
    leader = (7, 3) if is_told else None
    assert refusals.version == version
    assert refusals.encode("t", 2, KafkaError(code, "why")) == (version, 2, code, "why", (), leader)
    assert refusals.encode("t", 2, KafkaError(code, "")) == (version, 2, code, None, (), leader)
    answers: Any = ["answers"]
    assert refusals.response(answers) == (answers, version, 5, [("L", 7)] if is_told else ())
