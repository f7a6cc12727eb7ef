"""What one fetch reads of a partition and tells of it, each condition alone, and what is counted as it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.api.broker.test_fetch_parts import reader

from penstock.log.log_slice import LogSlice
from penstock.node.partitions.partition import Later
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import FetchPartitionResult
from penstock.replication.read_replica import NO_REPLICA, RACK_AWARE
from penstock.replication.waits import Waits

ROLE = object()


def records(length: int) -> LogSlice:
    return LogSlice(cast("Any", "file"), 0, length, 9)


class Log:
    """A partition whose log has all records from 2 to 20, of which those before 15 are committed, before 12 stable."""

    def __init__(self, *, is_loaded: bool = True, quota: Any = None) -> None:
        self.asked: list[Any] = []
        self.log = SimpleNamespace(log_end_offset=20, is_loaded=is_loaded, load=self.load)
        self.committed = SimpleNamespace(high_watermark=15, waits=Waits())
        self.high_watermark = 15
        self.last_stable_offset = 12
        self.log_start_offset = 2
        self.role: object = ROLE
        self.leader = SimpleNamespace(isr=(1, 3), appended=Waits(), log_end_offset=20)
        self.leader_quota = quota
        self.found: Any = records(30)
        self.traffic = SimpleNamespace(fetches=0, failed_fetches=0, bytes_out=0, replication_bytes_out=0)
        self.bytes_read = 0

    def load(self) -> Any:
        return SimpleNamespace(aborted_in=lambda offset, end: [(7, offset, end)])

    def check_replica(self, _: int) -> object:
        return ROLE

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one_batch: bool) -> Any:
        self.asked.append((offset, max_bytes, upper_offset, at_least_one_batch))
        return self.found


def asked(offset: int, *, epoch: int = -1, max_bytes: int = 50) -> Any:
    request = SimpleNamespace(
        index=4, fetch_offset=offset, max_bytes=max_bytes, current_leader_epoch=8, last_fetched_epoch=epoch
    )
    return SimpleNamespace(
        key=("t", 4), request=request, partition=None, role=ROLE, told_log_start_offset=2, told_high_watermark=15
    )


class Table:
    """Of the partitions of a node: that one, or none."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log

    def get(self, topic: str, index: int) -> Log | None:
        return self.log if (topic, index) == ("t", 4) else None


def reading(log: Log, **how: Any) -> Any:
    return reader(partitions=Table(log), **how)


@pytest.mark.parametrize(
    ("isolation", "offset", "is_loaded", "stable", "upper"),
    [
        (0, 14, True, 12, 15),
        (0, 15, True, 15, None),
        (1, 11, True, 12, 12),
        (1, 11, False, 12, 12),
        (1, 12, True, 12, None),
        (1, 15, True, 12, None),
        (1, 15, False, 15, None),
        (0, 15, False, 15, None),
    ],
)
def test_how_far_a_consumer_reads_and_what_it_is_told(
    isolation: int, offset: int, is_loaded: bool, stable: int, upper: int | None
) -> None:
    log = Log(is_loaded=is_loaded)
    it = reading(log, isolation=isolation)
    wanted = asked(offset)
    found = it._read(wanted)
    assert wanted.partition is log
    assert (found.index, found.error_code, found.high_watermark, found.log_start_offset) == (4, 0, 15, 2)
    assert (found.last_stable_offset, found.preferred_replica, it.is_urgent) == (stable, NO_REPLICA, False)
    assert log.asked == ([] if upper is None else [(offset, 50, upper, True)])
    assert (found.records.length, it.total_bytes) == ((0, 0) if upper is None else (30, 30))
    assert found.aborted == (None if isolation == 0 else () if upper is None else [(7, offset, 9)])


@pytest.mark.parametrize(("offset", "code"), [(1, ErrorCode.OFFSET_OUT_OF_RANGE), (21, ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_offsets_that_are_not_there(offset: int, code: ErrorCode) -> None:
    it = reading(Log())
    with pytest.raises(KafkaError) as refused:
        it._read(asked(offset))
    assert refused.value.code == code
    for at in (2, 20):
        assert it._read(asked(at)).error_code == 0


@pytest.mark.parametrize(
    ("before", "max_bytes", "reads", "is_tight"),
    [
        (0, 50, (50, True), False),
        (0, 80, (80, True), False),
        (0, 81, (80, True), True),
        (30, 50, (50, False), False),
        (30, 51, (50, False), True),
        (79, 50, (1, False), True),
        (80, 50, None, True),
        (95, 50, None, True),
    ],
)
def test_only_so_many_bytes_go_together(
    before: int, max_bytes: int, reads: tuple[int, bool] | None, is_tight: bool
) -> None:
    log = Log()
    it = reading(log)
    it.total_bytes = before
    found = it._read(asked(5, max_bytes=max_bytes))
    assert log.asked == ([] if reads is None else [(5, reads[0], 15, reads[1])])
    assert (it._is_tight, it.total_bytes) == (is_tight, before + found.records.length)


@pytest.mark.parametrize(
    ("how", "starts_at", "told_high", "is_urgent"),
    [
        ({}, 0, 0, False),
        ({"is_incremental": True}, 0, 0, False),
        ({"is_incremental": True, "replica_id": 3}, 2, 0, False),
        ({"is_incremental": True, "replica_id": 3}, 1, 15, True),
        ({"is_incremental": True, "replica_id": 3, "selector": RACK_AWARE}, 2, 15, False),
        ({"is_incremental": True, "replica_id": 3, "selector": RACK_AWARE}, 2, 14, True),
        ({"replica_id": 3, "selector": RACK_AWARE}, 1, 14, False),
    ],
)
def test_followers_hear_at_once_of_what_they_tell_others(
    how: dict[str, Any], starts_at: int, told_high: int, is_urgent: bool
) -> None:
    it, wanted = reading(Log(), **how), asked(20)
    wanted.told_log_start_offset, wanted.told_high_watermark = starts_at, told_high
    assert it._read(wanted).records.length == 0
    assert it.is_urgent is is_urgent


@pytest.mark.parametrize("has_quota", [True, False])
@pytest.mark.parametrize("replica_id", [-1, 0, 3])
def test_what_followers_get_counts_for_their_quota(replica_id: int, has_quota: bool) -> None:
    counted: list[tuple[int, int]] = []
    quota = SimpleNamespace(is_exceeded=lambda now_ms: False, record=lambda *of: counted.append(of))
    log = Log(quota=quota if has_quota else None)
    log.leader.isr = (0, 3)
    it = reading(log, replica_id=replica_id)
    it.plan = cast("Any", ("plan", None, False))
    it.read([asked(5), asked(6)])
    it.tell({}, it.results)
    it.tell({}, it.results)
    assert counted == ([(60, 9)] if has_quota and replica_id >= 0 else []), "once"


def test_what_is_read_in_later_is_waited_for() -> None:
    log, waits = Log(), Waits()
    log.found = Later(waits, 7)
    it = reading(log)
    assert it._read(asked(5)).records.length == 0
    woken = list[str]()
    found = it.wait([asked(5)], lambda: woken.append("woken"))
    assert [one is waits for one, _ in found] == [False, True]
    for here in waits.take_due(7):
        here()
    assert (woken, it._later) == (["woken"], [])


@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ({}, ["committed 16"]),
        ({"replica_id": 3}, ["appended 21"]),
        ({"replica_id": 0}, ["appended 21"]),
        ({"replica_id": 3, "is_incremental": True, "selector": RACK_AWARE}, ["appended 21", "committed 16"]),
    ],
)
def test_for_what_a_client_waits(how: dict[str, Any], waits: list[str]) -> None:
    log, found = Log(), list[str]()

    class Noting:
        def __init__(self, name: str) -> None:
            self.name = name

        def add(self, offset: int, woken: object) -> str:
            found.append(f"{self.name} {offset}")
            return "wait"

    log.committed.waits, log.leader.appended = cast("Any", Noting("committed")), cast("Any", Noting("appended"))
    reading(log, **how).wait([asked(5)], lambda: None)
    assert found == waits
    assert reader(partitions=Table(), **how).wait([asked(5)], lambda: None) == []


@pytest.mark.parametrize(("replica_id", "out", "replicated"), [(-1, 30, 0), (-2, 30, 0), (0, 0, 30), (3, 0, 30)])
@pytest.mark.parametrize("is_small", [False, True])
def test_what_goes_out_is_counted(replica_id: int, out: int, replicated: int, is_small: bool) -> None:
    log, it = Log(), reader(replica_id)
    it.plan = cast("Any", ("plan", None, False))
    wanted = asked(5)
    wanted.partition = log
    topics: dict[Any, list[Any]] = {}
    it.tell(topics, [(wanted, FetchPartitionResult(4, records=b"" if is_small else cast("Any", records(30))))])
    traffic = log.traffic
    told = (1, 30, out, replicated) if not is_small else (0, 0, 0, 0)
    assert (traffic.fetches, log.bytes_read, traffic.bytes_out, traffic.replication_bytes_out) == told
    assert [one.index for one in topics["t"]] == [4]


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_refused_is_counted(is_there: bool) -> None:
    log, failed = Log(), list[int]()
    it = reader(partitions=Table(log if is_there else None))
    it.plan = cast("Any", ("plan", None, False))
    it.context.counts = cast("Any", SimpleNamespace(failed=failed.append))
    wanted = asked(5)
    wanted.partition = log
    it.tell({}, [(wanted, FetchPartitionResult(4, ErrorCode.OFFSET_OUT_OF_RANGE, records=cast("Any", records(30))))])
    assert failed == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert (log.traffic.fetches, log.traffic.failed_fetches, log.bytes_read) == (int(is_there), int(is_there), 0)


@pytest.mark.parametrize(
    ("has_session", "is_incremental", "has_news", "is_told"),
    [
        (True, True, False, False),
        (True, True, True, True),
        (True, False, False, True),
        (False, False, False, True),
        (False, True, False, True),
    ],
)
def test_a_session_is_told_news_alone(has_session: bool, is_incremental: bool, has_news: bool, is_told: bool) -> None:
    moved: list[Any] = []
    session = SimpleNamespace(to_the_back=moved.append)
    it = reader()
    it.plan = cast("Any", ("plan", session if has_session else None, is_incremental))
    result = FetchPartitionResult(4, high_watermark=16 if has_news else 15, log_start_offset=2)
    topics: dict[Any, list[Any]] = {}
    it.tell(topics, [(asked(5), result)])
    assert topics == ({"t": [result]} if is_told else {})
    assert moved == []
    it._is_tight = True
    other = FetchPartitionResult(5, records=b"a")
    elsewhere = asked(5)
    elsewhere.key = "u", 5
    it.tell(topics, [(asked(5), result), (elsewhere, other)])
    assert moved == ([[("u", 5)]] if has_session else [])


@pytest.mark.parametrize(
    ("skips", "is_late", "is_quiet", "is_read"),
    [(True, False, True, False), (True, True, True, True), (False, False, True, True), (True, False, False, True)],
)
def test_what_is_quiet_is_skipped_where_a_leader_says_so(
    skips: bool, is_late: bool, is_quiet: bool, is_read: bool
) -> None:
    it = reader(is_incremental=skips, lease_is_over=is_late, partitions=Table(Log()), check_lease=lambda _: None)
    wanted = asked(5)
    wanted.is_quiet = lambda replica_id: is_quiet and replica_id == -1
    it.read([wanted])
    assert len(it.results) == is_read
