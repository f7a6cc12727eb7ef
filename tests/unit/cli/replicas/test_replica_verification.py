"""How `penstock replica-verification` goes through partitions, and what it says, over answers that are said."""

import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import click
import pytest
from tests.stand_in import stand_in

from penstock.cli.replicas import replica_verification
from penstock.cli.replicas.replica_comparison import Compared, Given
from penstock.cli.replicas.replica_verification import Options, Verification
from penstock.client.admin import Admin
from penstock.client.errors import ClientError
from penstock.client.values import EARLIEST, LATEST, OffsetAndTimestamp, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = UUID(int=5)


class Brokers:
    """Each round of questions finds the next answers, by broker; the last ones again and again."""

    def __init__(self) -> None:
        self.rounds: list[dict[int, FetchResponse | Exception]] = []
        self.asked: list[tuple[int, dict[int, int], int, int]] = []
        self.compared: list[tuple[TopicPartition, int, dict[int, Given]]] = []
        self.differences: dict[int, list[str]] = {}
        """By offset."""
        self.apart: set[int] = set()
        self.pauses: list[float] = []
        self.now_s = 0.0
        self.begins = {P0: 3, P1: -1}
        self.ends = {P0: 5, P1: 7}
        self._round = 0
        self._given: set[int] = set()

    async def offsets(self, partitions: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        found = {LATEST: self.ends, EARLIEST: self.begins}
        return {one: OffsetAndTimestamp(found[moment][one], -1) for one, moment in partitions.items()}

    async def to_node(self, node: int, request: FetchRequest, _: object) -> FetchResponse:
        rows = [row for topic in request.topics for row in topic.partitions]
        each = {row.partition_max_bytes for row in rows}
        offsets = {row.partition: row.fetch_offset for row in rows}
        self.asked.append((node, offsets, each.pop(), request.max_wait_ms))
        if node in self._given:
            self._given.clear()
            self._round += 1
        self._given.add(node)
        answer = self.rounds[min(self._round, len(self.rounds) - 1)][node]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def compare(self, partition: TopicPartition, offset: int, rows: dict[int, Given]) -> Compared:
        self.compared.append((partition, offset, dict(rows)))
        self.now_s += 10
        step = max(len(row.records) for row in rows.values())
        return Compared(offset + step, tuple(self.differences.get(offset, ())), offset in self.apart)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    monkeypatch.setattr(replica_verification, "compare", found.compare)
    monkeypatch.setattr(replica_verification, "time", stand_in(time, monotonic=lambda: found.now_s))
    monkeypatch.setattr(
        replica_verification,
        "asyncio",
        stand_in(replica_verification.asyncio, sleep=found.sleep),  # type: ignore[attr-defined]
    )
    return found


def verification(brokers: Brokers, replicas: dict[TopicPartition, list[int]]) -> Verification:
    admin = SimpleNamespace(offsets=brokers.offsets, cluster=SimpleNamespace(to_node=brokers.to_node))
    return Verification(cast("Admin", admin), replicas, {"t": ID})


def options(*, once: bool = True, interval_ms: int = 1_000_000) -> Options:
    return Options(
        topics_include=".*", fetch_size=9, max_wait_ms=4, moment=None, report_interval_ms=interval_ms, once=once
    )


def data(partition: int, records: bytes, end: int, code: int = 0, start: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=partition, records=records, high_watermark=end, error_code=code, log_start_offset=start
    )


def answer(*rows: PartitionData, name: str = "t") -> FetchResponse:
    topic = FetchableTopicResponse(topic=name, topic_id=ID, partitions=list(rows))
    return FetchResponse(responses=[topic])


Said = Callable[[], list[str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Without the moments before them."""

    def lines() -> list[str]:
        found = capsys.readouterr().out.splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", line) for line in found)
        return [line.split(": ", 1)[1] for line in found]

    return lines


async def test_it_begins_at_a_moment_or_at_the_end(brokers: Brokers, said: Said) -> None:
    it = verification(brokers, {P0: [1], P1: [1]})
    await it.begin(EARLIEST)
    assert (it._offsets, it._ends) == ({P0: 3, P1: 7}, {P0: 5, P1: 7})
    assert said() == ["verification process is started"]


async def test_it_goes_on_to_the_end_that_was_there(brokers: Brokers, said: Said) -> None:
    first = answer(data(0, b"x", 5), data(1, b"", 7))
    second = answer(data(0, b"x", 9), data(1, b"", 8), name="")
    brokers.rounds = [{1: first, 2: first}, {1: second, 2: answer(data(0, b"x", 6), data(1, b"", 7))}]
    it = verification(brokers, {P0: [1, 2], P1: [2, 1]})
    await it.begin(EARLIEST)
    await it.run(options())
    assert brokers.asked == [
        (1, {0: 3, 1: 7}, 9, 4),
        (2, {0: 3, 1: 7}, 9, 4),
        (1, {1: 7, 0: 4}, 9, 4),
        (2, {1: 7, 0: 4}, 9, 4),
    ]
    assert [(partition, offset) for partition, offset, _ in brokers.compared] == [(P0, 3), (P1, 7), (P0, 4), (P1, 7)]
    assert brokers.compared[2][2] == {1: Given(b"x", 9), 2: Given(b"x", 6)}
    assert said()[1:] == ["max lag is 4 for partition t-0 at offset 5 among 2 partitions"]
    assert (it.has_differences, brokers.pauses) == (False, [])


async def test_intervals_are_told(brokers: Brokers, said: Said) -> None:
    brokers.rounds = [{1: answer(data(0, b"x", 5))}]
    brokers.begins[P0] = 0
    it = verification(brokers, {P0: [1]})
    await it.begin(EARLIEST)
    await it.run(options(interval_ms=15_000))  # each round takes ten seconds
    assert said()[1:] == [
        "max lag is 3 for partition t-0 at offset 2 among 1 partitions",
        "max lag is 1 for partition t-0 at offset 4 among 1 partitions",
        "max lag is 0 for partition t-0 at offset 5 among 1 partitions",
    ]


async def test_differences_are_told_and_noted(brokers: Brokers, said: Said) -> None:
    brokers.rounds = [{1: answer(data(0, b"xx", 5))}]
    brokers.differences = {3: ["one", "two"]}
    it = verification(brokers, {P0: [1]})
    await it.begin(EARLIEST)
    await it.run(options())
    assert said()[1:3] == ["one", "two"]
    assert it.has_differences


async def test_replicas_that_are_apart_end_it(brokers: Brokers) -> None:
    brokers.rounds = [{1: answer(data(0, b"x", 5))}]
    brokers.apart = {4}
    it = verification(brokers, {P0: [1]})
    await it.begin(EARLIEST)
    with pytest.raises(click.exceptions.Exit) as ended:
        await it.run(options())
    assert ended.value.exit_code == 1
    assert [offset for _, offset, _ in brokers.compared] == [3, 4]


async def test_a_broker_that_does_not_answer_is_told_of_once(
    brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    good, refused = answer(data(0, b"x", 5)), FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    brokers.rounds = [
        {1: good, 2: ClientError("gone")},
        {1: good, 2: TimeoutError("late")},
        {1: good, 2: good},
        {1: good, 2: refused},
        {1: good, 2: good},
    ]
    it = verification(brokers, {P0: [1, 2]})
    await it.begin(EARLIEST)
    await it.run(options())
    assert capsys.readouterr().err.splitlines() == [
        "broker 2 does not answer, its partitions wait: gone",
        "broker 2 answers again",
        "broker 2 does not answer, its partitions wait: FETCH_SESSION_ID_NOT_FOUND",
        "broker 2 answers again",
    ]
    assert [offset for _, offset, _ in brokers.compared] == [3, 4]
    assert brokers.pauses == [replica_verification.RETRY_S] * 3


async def test_a_replica_that_is_refused_is_told_of_once_for_each_reason(
    brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    good = answer(data(0, b"x", 5))
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE]
    brokers.rounds = [{1: good, 2: answer(data(0, b"", 5, code, 3))} for code in codes]
    brokers.rounds += [{1: good, 2: good}, {1: good, 2: answer(data(0, b"", 5, codes[3]))}, {1: good, 2: good}]
    it = verification(brokers, {P0: [1, 2]})
    await it.begin(EARLIEST)
    await it.run(options())
    names = ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "OFFSET_OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"]
    told = [f"t-0: broker 2 says {name}, the partition waits" for name in names]
    assert capsys.readouterr().err.splitlines() == told
    assert len(brokers.pauses) == 5


async def test_a_log_that_begins_later_is_gone_on_with_from_there(brokers: Brokers) -> None:
    later = answer(data(0, b"", 9, ErrorCode.OFFSET_OUT_OF_RANGE, 4))
    brokers.rounds = [{1: later}, {1: answer(data(0, b"x", 9))}]
    it = verification(brokers, {P0: [1]})
    await it.begin(EARLIEST)
    await it.run(options())
    assert [offsets for _, offsets, *_ in brokers.asked] == [{0: 3}, {0: 4}]
