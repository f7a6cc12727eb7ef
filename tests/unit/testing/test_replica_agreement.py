"""What replicas must agree on: histories in which one does not, and such as only look so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.log.compaction.rounds import COMPACTED
from tests.unit.log.logs import NOW, batch, open_log
from tests.unit.log.transactions import append_all, ended, written

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.protocol.control.records import ControlType
from penstock.testing.simulator import replica_agreement
from penstock.testing.simulator.replica_agreement import DAMAGED, ReplicaAgreement, _batches

KEY = (UUID(int=9), 0)


class Replica:
    """One of t-0, as the rules see it."""

    topic_id, index, topic = *KEY, "t"

    def __init__(self, log: PartitionLog, high_watermark: int, epoch: int = 1, stable: int | None = None) -> None:
        self.log, self.high_watermark, self.leader_epoch = log, high_watermark, epoch
        self.last_stable_offset = high_watermark if stable is None else stable

    def __str__(self) -> str:
        return "t-0"


class Agreement:
    """What was found, look by look; values that were appended tell replicas apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[str] = []
        self.rules = ReplicaAgreement(self.found.append)

    def log(self, *values: str, epoch: int = 1, config: LogConfig | None = None) -> PartitionLog:
        directory = self.path / str(len(list(self.path.iterdir())))
        directory.mkdir()
        log = open_log(directory, config)
        self.append(log, *values, epoch=epoch)
        return log

    @staticmethod
    def append(log: PartitionLog, *values: str, epoch: int = 1) -> None:
        for value in values:
            log.append_as_leader(batch(value=value.encode()), leader_epoch=epoch, now_ms=NOW)

    def look(
        self,
        name: str,
        log: PartitionLog,
        high_watermark: int,
        *,
        leads: bool = False,
        epoch: int = 1,
        stable: int | None = None,
        is_weak: bool = False,
        is_current: bool = True,
    ) -> list[str]:
        """What this look finds."""
        self.found.clear()
        replica: Any = Replica(log, high_watermark, epoch, stable)
        self.rules.look(name, replica, leads=leads, is_weak=is_weak, is_current=is_current, now_ms=NOW)
        return list(self.found)


@pytest.fixture
def seen(tmp_path: Path) -> Agreement:
    return Agreement(tmp_path)


def test_an_epoch_has_one_leader(seen: Agreement) -> None:
    log = seen.log("a")
    assert seen.look("one", log, 1, leads=True) == []
    assert seen.look("one", log, 1, leads=True) == []
    assert seen.look("two", log, 1, leads=True, epoch=2) == []
    assert seen.look("two", log, 1, leads=True) == ["one and two lead epoch 1 of t-0"]


def test_high_watermarks_of_a_leader_never_go_back_within_an_epoch(seen: Agreement) -> None:
    log = seen.log("a", "b", "c")
    assert seen.look("one", log, 2, leads=True) == []
    assert seen.look("one", log, 1, leads=True, stable=2) == ["one: the high watermark of t-0 was 2 and is 1"]
    assert seen.look("one", log, 0, leads=True, stable=2) == ["one: the high watermark of t-0 was 1 and is 0"]
    assert seen.look("one", log, 3, leads=True) == []
    assert seen.look("one", log, 3, leads=True, stable=2) == ["one: the last stable offset of t-0 was 3 and is 2"]
    assert seen.look("one", log, 3, leads=True, stable=1) == ["one: the last stable offset of t-0 was 2 and is 1"]
    assert seen.look("two", log, 1, leads=True, epoch=2) == []
    assert seen.look("two", log, 1, leads=True, epoch=2) == []


def test_who_leads_or_is_in_sync_has_all_that_was_committed(seen: Agreement) -> None:
    log, short = seen.log("a", "b", "c"), seen.log("a", "b")
    assert seen.look("one", log, 2, leads=True) == []
    assert seen.look("two", short, 0) == []
    assert seen.look("one", log, 3, leads=True) == []
    assert seen.look("one", log, 1, leads=True, epoch=2) == []
    in_sync = "two is in sync in epoch 1 of t-0 and ends at 2; 3 was committed"
    assert seen.look("two", short, 0) == [in_sync]
    assert seen.look("two", short, 0, is_weak=True) == []
    assert seen.look("two", short, 0, is_current=False) == []
    assert seen.look("two", short, 2, leads=True, epoch=3) == [
        "two leads epoch 3 of t-0 and ends at 2; 3 was committed"
    ]
    assert seen.look("two", log, 3, epoch=3) == []


def test_a_high_watermark_lies_within_the_log(seen: Agreement) -> None:
    log = seen.log("a", "b")
    assert seen.look("one", log, 2, leads=True) == []
    assert seen.look("two", seen.log("a"), 2, leads=True, epoch=2) == [
        "two leads epoch 2 of t-0 and ends at 1; 2 was committed",
        "two: t-0 ends at 1, its high watermark is 2",
    ]


def of(log: PartitionLog, at: int) -> tuple[int, int, int]:
    replica: Any = Replica(log, log.log_end_offset)
    return dict(_batches(replica, 0))[at]


def differs(name: str, at: int, log: PartitionLog, other: PartitionLog) -> str:
    return f"{name}: the batch at {at} of t-0 is {of(log, at)}, elsewhere it is {of(other, at)}"


def test_batches_below_high_watermarks_are_the_same(seen: Agreement) -> None:
    log, other = seen.log("a", "b", "c"), seen.log("a", "x", "y")
    assert seen.look("one", log, 2, leads=True) == []
    assert seen.look("two", other, 1) == []
    assert seen.look("two", other, 3, is_weak=True) == []
    assert seen.look("two", other, 3) == [differs("two", 1, other, log)], "none is known yet at 2"
    assert seen.look("two", other, 3) == [], "it is told once"
    assert seen.look("one", log, 3, leads=True) == []
    assert seen.look("two", other, 3) == [differs("two", 2, other, log)]
    assert seen.look("two", other, 3) == []
    seen.rules.forget_node("one")
    assert seen.look("two", other, 3) == []
    seen.rules.forget_node("two")
    both = [differs("two", at, other, log) for at in (1, 2)]
    assert seen.look("two", other, 3) == both
    again = seen.log("a", "x", "y")
    assert seen.look("two", again, 3) == both, "it is another log"


def test_a_weak_leader_is_compared_as_well(seen: Agreement) -> None:
    log, other = seen.log("a"), seen.log("x")
    assert seen.look("one", log, 1, leads=True) == []
    assert seen.look("two", other, 1, leads=True, epoch=2, is_weak=True) == [differs("two", 0, other, log)]


def test_a_batch_of_another_epoch_is_another_one(seen: Agreement) -> None:
    log, other = seen.log("a"), seen.log("a", epoch=2)
    assert seen.look("one", log, 1, leads=True) == []
    assert seen.look("two", other, 1) == [differs("two", 0, other, log)]


def test_partitions_are_apart(seen: Agreement) -> None:
    assert seen.look("one", seen.log("a"), 1, leads=True) == []
    replica: Any = Replica(seen.log("x"), 1)
    for key in ((KEY[0], 1), (UUID(int=8), 0)):
        replica.topic_id, replica.index = key
        seen.rules.look("two", replica, leads=True, is_weak=False, is_current=True, now_ms=NOW)
    assert seen.found == []


def test_a_damaged_batch_is_told_and_what_lies_behind_it_is_left(seen: Agreement) -> None:
    log, other = seen.log("a", "b", "c"), seen.log("a", "b", "x")
    assert seen.look("one", log, 3, leads=True) == []
    (segment,) = Path(other.directory).glob("*.log")
    content = bytearray(segment.read_bytes())
    content[_value_at(other, 1)] ^= 1
    segment.write_bytes(content)
    damaged = "two: the batch at 1 of t-0 is damaged"
    assert seen.look("two", other, 3) == [damaged]
    assert seen.look("two", other, 3) == [damaged], "until it is whole"
    assert of(other, 1)[2] == DAMAGED
    assert of(other, 0) == of(log, 0)


def _value_at(log: PartitionLog, number: int) -> int:
    """Where the last byte of a batch's only value is, in the log's segment: before its count of headers."""
    sizes = [header.size_in_bytes for _, header in log.headers_of(log.read(0, 1 << 20))]
    return sum(sizes[: number + 1]) - 2


def test_what_is_read_in_pieces_is_read_whole(seen: Agreement, monkeypatch: pytest.MonkeyPatch) -> None:
    log = seen.log(*"abcdefgh")
    whole = [of(log, at) for at in range(8)]
    assert [one[:2] for one in whole] == [(at + 1, 1) for at in range(8)]
    size = len(batch(value=b"a"))
    for read_bytes in (1, size, size + 5, 2 * size, 3 * size + 1):
        monkeypatch.setattr(replica_agreement, "READ_BYTES", read_bytes)
        replica: Any = Replica(log, 7)
        assert [one for _, one in _batches(replica, 0)] == whole[:7]
        assert [at for at, _ in _batches(replica, 3)] == [3, 4, 5, 6]
    assert list(_batches(Replica(log, 3), 3)) == []  # type: ignore[arg-type]


def test_power_cuts_take_what_was_committed(seen: Agreement) -> None:
    log, other = seen.log("a", "b", "c"), seen.log("a", "x")
    seen.rules.lost((UUID(int=1), 0), 0)
    assert seen.look("one", log, 3, leads=True) == []
    seen.rules.lost(KEY, 4)
    assert seen.look("two", other, 0) == ["two is in sync in epoch 1 of t-0 and ends at 2; 3 was committed"]
    assert seen.look("one", log, 1, leads=True, stable=0) == [], "both may have gone back"
    seen.rules.lost(KEY, 2)
    assert seen.look("two", other, 2) == [differs("two", 1, other, log)], "that at 1 ends at 2"
    seen.rules.lost(KEY, 1)
    seen.rules.forget_node("two")
    assert seen.look("two", other, 2, leads=True, epoch=2) == [], "it is another one since"
    assert seen.look("one", log, 2) == [], "it was compared"
    seen.rules.forget_node("one")
    assert seen.look("one", log, 2) == [differs("one", 1, log, other)]


ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def transactions(seen: Agreement, *ends: ControlType) -> PartitionLog:
    """A record and a marker of one producer after the other."""
    log = seen.log()
    for number, how in enumerate(ends):
        append_all(log, written(number, 0), ended(number, how), leader_epoch=1)
    return log


def test_aborts_are_the_same_in_each_index(seen: Agreement, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaAgreement, "_compare", lambda *_, **__: None)
    log, other = transactions(seen, COMMIT, ABORT, ABORT), transactions(seen, ABORT, COMMIT, ABORT)
    third = transactions(seen, COMMIT, ABORT, COMMIT)
    said = "{}: the abort at {} of t-0 is {}, elsewhere it is {}"
    at_3, at_5 = said.format("two", 3, None, (1, 2)), said.format("two", 5, None, (2, 4))
    assert seen.look("one", log, 5, leads=True) == []
    assert seen.look("two", other, 3) == []
    assert seen.look("two", other, 4, is_weak=True) == []
    assert seen.look("two", other, 4) == [at_3]
    assert seen.look("two", other, 4) == [at_3]
    assert seen.look("two", third, 6) == [], "no leader was seen so far"
    assert seen.look("one", log, 6, leads=True) == []
    assert seen.look("two", third, 6) == [at_5]
    other.append_as_leader(batch(), leader_epoch=1, now_ms=NOW)
    seen.rules.lost(KEY, 5)
    assert seen.look("two", third, 6) == []
    assert seen.look("two", third, 6, leads=True, epoch=2) == []
    assert seen.look("one", log, 6, leads=True, epoch=3) == []
    assert seen.look("two", third, 6, leads=True, epoch=4) == [at_5]
    assert seen.look("two", other, 6, leads=True, epoch=4) == [at_3]
    assert seen.look("one", log, 6) == [said.format("one", 1, None, (0, 0))], "leaders are right"


def test_aborts_that_a_log_does_not_reach_are_not_missed(seen: Agreement) -> None:
    log, whole = transactions(seen, ABORT, ABORT), transactions(seen, ABORT, ABORT)
    assert seen.look("one", whole, 4, leads=True) == []
    for starts in (1, 2, 4):
        other = seen.log()
        other.truncate_fully_and_start_at(starts)
        if starts < 4:
            other.append_as_follower(memoryview(log.read(starts, 1 << 20).read()))
        found = seen.look("two", other, 4)
        assert found == (["two: the abort at 1 of t-0 is None, elsewhere it is (0, 0)"] if starts == 1 else [])


SEGMENT = "/data/t-0/00000000000000000000.log"


@pytest.mark.parametrize(
    ("path", "is_kept", "waits"),
    [
        (SEGMENT, True, ["t-0"]),
        ("/data/t-0/00000000000000000000.index", False, []),
        ("/data/__cluster_metadata-0/00000000000000000000.log", False, []),
        ("/data/t-x/00000000000000000000.log", False, []),
        ("/data/u-0/00000000000000000000.log", False, ["u-0"]),
    ],
)
def test_what_is_written_of_a_compacted_partition_is_noted(
    seen: Agreement, path: str, is_kept: bool, waits: list[str]
) -> None:
    log = seen.log(config=COMPACTED)
    seen.rules.written(path, b"once")
    assert [*seen.rules._written] == waits
    noted: list[bytes] = []
    compared: list[Any] = []
    seen.look("one", log, 0, leads=True)
    history: Any = seen.rules._committed[KEY].compacted
    seen.rules._committed[KEY].compacted = cast(
        "Any",
        SimpleNamespace(
            note=noted.append,
            written={},
            lost=compared.append,
            forget_node=compared.append,
            compare=lambda name, _, *, leads, now_ms, violated: compared.append((name, leads, now_ms)),
        ),
    )
    assert history.written == {}
    seen.rules.written(path, b"twice")
    seen.rules.written(path, b"again")
    seen.look("one", log, 0, leads=True, is_weak=True)
    assert noted == ([b"twice", b"again"] if is_kept else [])
    seen.look("two", log, 0)
    seen.look("two", log, 0, is_weak=True)
    assert compared == [("one", True, NOW), ("two", False, NOW)]
    assert noted == ([b"twice", b"again"] if is_kept else []), "once"
    compared.clear()
    seen.rules.lost(KEY, 3)
    seen.rules.forget_node("two")
    assert compared == [3, "two"]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_what_was_written_before_power_was_cut_is_noted_where_it_counts(seen: Agreement, is_compacted: bool) -> None:
    log = seen.log(config=COMPACTED if is_compacted else None)
    seen.look("one", log, 0, leads=True)
    told: list[Any] = []
    written_before: dict[int, Any] = {0: {}} if is_compacted else {}
    seen.rules._committed[KEY].compacted = cast(
        "Any", SimpleNamespace(note=told.append, written=written_before, lost=told.append)
    )
    seen.rules.written(SEGMENT, b"content")
    seen.rules.lost(KEY, 0)
    assert told == ([b"content", 0] if is_compacted else [0])


@pytest.mark.parametrize("begins_late", [False, True])
def test_a_history_knows_when_it_began(begins_late: bool, seen: Agreement) -> None:
    seen.rules = ReplicaAgreement(seen.found.append, begins_late=begins_late)
    seen.look("one", seen.log("a"), 1)
    assert seen.rules._committed[KEY].compacted.began_late is begins_late


def test_what_producers_are_known_by_is_looked_at_anew_for_each_process(seen: Agreement) -> None:
    log = seen.log()
    log.append_as_leader(batch(producer=(7, 0, 0)), leader_epoch=1, now_ms=NOW)
    assert seen.look("one", log, 1, leads=True) == []
    log.producers._producers.clear()
    assert seen.look("one", log, 1, leads=True) == []
    seen.rules.forget_node("two")
    assert seen.look("one", log, 1, leads=True) == []
    seen.rules.forget_node("one")
    assert [one[:35] for one in seen.look("one", log, 1, leads=True)] == ["one: t-0 has forgotten of producer 7"[:35]]
