"""How far a source may read: ends that went back, losses, and boundaries. A table stands for the cluster's offsets."""

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.client.blocking import TopicPartition
from penstock.client.values import EARLIEST, LATEST, NO_OFFSET, IsolationLevel
from penstock.pipeline.datasource import cluster_offsets
from penstock.pipeline.datasource.cluster_offsets import LOOKS_AT_A_STEP_BACK, STEP_BACK_PAUSE_MS, SourceCluster
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.stream_position import StreamPosition, beginning_of, with_beginning
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.boundaries import AtOffsets, AtTimestamps, Word
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options

A, B, C = ("t", 0), ("t", 1), ("u", 0)
ID = UUID(int=7)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
Offsets = Mapping[TopicPartition, int]


class Table:
    """Offsets by what is asked: the earliest, the ends as they are at each look, and those of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.earliest: Offsets = {}
        self.ends: dict[IsolationLevel, list[Offsets]] = {}
        self.of_times: dict[int, Offsets] = {}
        self.looks: list[str] = []
        monkeypatch.setattr(cluster_offsets, "list_offsets", self._list)
        pauses = stand_in(time, sleep=lambda seconds: self.looks.append(f"pause {seconds:g}"))
        monkeypatch.setattr(cluster_offsets, "time", pauses)

    def _list(self, _: object, wanted: Mapping[TopicPartition, int], isolation: IsolationLevel) -> Mapping[Any, Any]:
        found = {}
        ends = self.ends.get(isolation, [{}])
        if LATEST in wanted.values():
            self.looks.append(isolation.name)
            now = ends.pop(0) if len(ends) > 1 else ends[0]
        for partition, what in wanted.items():
            if what == EARLIEST:
                offset = self.earliest.get(partition, 0)
            else:
                offset = now[partition] if what == LATEST else self.of_times[what].get(partition, NO_OFFSET)
            found[partition] = SimpleNamespace(offset=offset)
        return found


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    return Table(monkeypatch)


def seen(**options: str) -> SourceCluster:
    named = {name.replace("_", "."): text for name, text in options.items()}
    given = {"bootstrap.servers": "a:1", "subscribe": "t,u"} | named
    cluster = SimpleNamespace(topic_ids={"t": ID}, partitions_there=lambda _: {"t": [0, 1], "u": [0]})
    return SourceCluster(cast("Any", cluster), source_options(read_options(given), streaming=True))


PAUSE = f"pause {STEP_BACK_PAUSE_MS / 1000:g}"
AGAIN = (["READ_UNCOMMITTED", PAUSE] * LOOKS_AT_A_STEP_BACK)[:-1]


@pytest.mark.parametrize(
    ("isolation", "ends", "known", "found", "looks"),
    [
        (UNCOMMITTED, [{A: 5, B: 7}], None, {A: 5, B: 7}, ["READ_UNCOMMITTED"]),
        (UNCOMMITTED, [{A: 5, B: 7}], {A: 5}, {A: 5, B: 7}, ["READ_UNCOMMITTED"]),
        (UNCOMMITTED, [{A: 4, B: 7}, {A: 5, B: 8}], {A: 5}, {A: 5, B: 8}, AGAIN[:3]),
        (UNCOMMITTED, [{A: 4, B: 7}], {A: 5, B: 7}, {A: 4, B: 7}, AGAIN),
        (UNCOMMITTED, [{A: 4, B: 7}], {C: 9}, {A: 4, B: 7}, ["READ_UNCOMMITTED"]),
        (COMMITTED, [{A: 5, B: 7}], {A: 5, B: 6}, {A: 5, B: 7}, ["READ_COMMITTED"]),
    ],
)
def test_an_end_that_went_back_is_looked_at_again(
    table: Table, isolation: IsolationLevel, ends: Sequence[Offsets], known: Any, found: Offsets, looks: list[str]
) -> None:
    table.ends[isolation] = list(ends)
    source = seen(isolation_level=isolation.name.lower())
    assert source.latest([A, B], known) == found
    assert table.looks == looks


@pytest.mark.parametrize(("log_end", "found"), [(9, 6), (6, 6), (5, 5)])
def test_who_has_read_what_was_not_committed_waits_there(table: Table, log_end: int, found: int) -> None:
    table.ends = {COMMITTED: [{A: 4, B: 7}], UNCOMMITTED: [{A: log_end, B: 99}]}
    assert seen(isolation_level="read_committed").latest([A, B], {A: 6, B: 7}) == {A: found, B: 7}
    is_lost = log_end < 6
    assert table.looks == ["READ_COMMITTED", "READ_UNCOMMITTED"] + [PAUSE, "READ_COMMITTED", "READ_UNCOMMITTED"] * (
        (LOOKS_AT_A_STEP_BACK - 1) * is_lost
    )


def test_boundaries(table: Table) -> None:
    table.earliest, table.ends = {A: 1, B: 2}, {UNCOMMITTED: [{A: 8, B: 9}]}
    table.of_times = {100: {A: 3}, 200: {A: 4, B: 5}}
    latest = seen(startingOffsetsByTimestampStrategy="latest")
    source = seen()
    for where, is_start, found in (
        (Word.EARLIEST, True, {A: 1, B: 2}),
        (Word.LATEST, True, {A: 8, B: 9}),
        (AtOffsets({A: EARLIEST, B: LATEST}), True, {A: 1, B: 9}),
        (AtOffsets({A: 5, B: LATEST}), False, {A: 5, B: 9}),
        (AtTimestamps(everywhere_ms=200, per_partition_ms={}), True, {A: 4, B: 5}),
        (AtTimestamps(everywhere_ms=100, per_partition_ms={}), False, {A: 3, B: 9}),
        (AtTimestamps(everywhere_ms=None, per_partition_ms={A: 100, B: 200}), True, {A: 3, B: 5}),
    ):
        assert source.at_boundary([A, B], where, is_start=is_start) == found
    late = AtTimestamps(everywhere_ms=100, per_partition_ms={})
    assert latest.at_boundary([A, B], late, is_start=True) == {A: 3, B: 9}
    with pytest.raises(
        PipelineError, match="No record is as new as the starting timestamp in partition 1 of topic 't'"
    ):
        source.at_boundary([A, B], late, is_start=True)


@pytest.mark.parametrize("is_start", [True, False])
def test_each_partition_has_a_boundary_and_no_other_one(table: Table, is_start: bool) -> None:
    word = "starting" if is_start else "ending"
    many = [("t", number) for number in range(8)]
    for where, option in (
        (lambda names: AtOffsets(dict.fromkeys(names, 1)), f"{word}Offsets"),
        (
            lambda names: AtTimestamps(everywhere_ms=None, per_partition_ms=dict.fromkeys(names, 1)),
            f"{word}OffsetsByTimestamp",
        ),
    ):
        with pytest.raises(PipelineError) as raised:
            seen().at_boundary([A, B], where([A]), is_start=is_start)
        said = "says nothing about partition 1 of topic 't'; give each partition a value."
        assert str(raised.value) == f"Option {option} {said}"
        with pytest.raises(PipelineError) as raised:
            seen().at_boundary([A], where([A, C]), is_start=is_start)
        said = "names partition 0 of topic 'u', which is not among what is read."
        assert str(raised.value) == f"Option {option} {said}"
        for count, more in ((5, ""), (6, " and 1 more"), (8, " and 3 more")):
            with pytest.raises(PipelineError) as raised:
                seen().at_boundary(many[:count], where([]), is_start=is_start)
            assert (" and " in str(raised.value)) is bool(more)
            assert more in str(raised.value)


def test_what_is_lost_between_two_positions(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    source = seen(failOnDataLoss="false")
    table.earliest = {B: 3, C: 0}
    begin = StreamPosition({A: 5, ("gone", 0): 7}, {"t": ID, "gone": UUID(int=1)})
    source.report_losses(begin, StreamPosition({A: 4, B: 9, C: 9}, {"t": ID}))
    assert [record.getMessage() for record in caplog.records] == [
        "Data is lost: all from offset 7 on of partition 0 of topic 'gone' is gone.",
        "Data is lost: offsets 4 to 4 of partition 0 of topic 't' are gone.",
        "Data is lost: offsets 0 to 2 of partition 1 of topic 't', which is new, are gone.",
    ]
    caplog.clear()
    source.report_losses(StreamPosition({A: 5}, {"t": ID}), StreamPosition({A: 5}, {"t": ID}))
    assert caplog.records == []
    source.report_losses(StreamPosition({A: 5}, {"t": ID}), StreamPosition({A: 9, B: 9}, {"t": UUID(int=8)}))
    words = "Data is lost: topic 't' was deleted and created again; what was unread before is gone."
    assert [record.getMessage() for record in caplog.records] == [words]
    with pytest.raises(PipelineError, match=r"^Data is lost: offsets 4 to 4 .* are gone\. Set failOnDataLoss=false to"):
        seen().report_losses(begin, StreamPosition({A: 4, ("gone", 0): 7}, begin.topic_ids))


def test_where_a_batch_begins(table: Table) -> None:
    table.earliest = {B: 3}
    begin = StreamPosition({A: 5}, {"t": ID})
    assert seen().starts(begin, StreamPosition({A: 9, B: 9}, {"t": ID})) == {A: 5, B: 3}
    assert seen().starts(begin, StreamPosition({A: 9}, {"t": UUID(int=8)})) == {A: 0}


def test_what_was_deleted_is_left_out_of_ranges(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    source = seen(failOnDataLoss="false")
    ranges = [OffsetRange("t", 0, 2, 9, ID), OffsetRange("t", 1, 2, 9, None), OffsetRange("u", 0, 2, 9, ID)]
    assert (
        source.still_there([*ranges, OffsetRange("t", 5, 0, 1), OffsetRange("t", 0, 0, 1, UUID(int=8))]) == ranges[:2]
    )
    assert len(caplog.records) == 3
    caplog.clear()
    for begin, kept in ((0, (2, 9)), (2, (2, 9)), (3, (3, 9)), (9, None), (50, None)):
        table.earliest = {A: begin}
        expected = [] if kept is None else [ranges[0].replace(start=kept[0], end=kept[1])]
        assert source.without_lost(ranges[:1]) == expected
        assert bool(caplog.records) is (begin > 2)
        caplog.clear()
    assert source.without_lost([OffsetRange("t", 0, 9, 9)]) == []
    assert caplog.records == []


def test_a_first_batch_begins_where_its_end_says_also_at_offset_0() -> None:
    first, end = StreamPosition({A: 0, B: 4}, {"t": ID}), StreamPosition({A: 5, B: 5}, {"t": ID})
    assert beginning_of({}, with_beginning(end, first)) == first
