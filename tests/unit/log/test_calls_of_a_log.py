"""What each change of one log asks of the disk, in order: what is written, cut, renamed, removed, and synced."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log
from tests.unit.log.recorded_disk import RecordedDisk
from tests.unit.log.transactions import append_all, ended, written

from penstock.log.config import LogConfig
from penstock.log.disk import Disk, OpenFile
from penstock.log.log_content import SEALED_FLUSH_DELAY_MS
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.protocol.control.records import ControlType

EPOCHS = "leader-epoch-checkpoint"
FILES = ("log", "index", "timeindex")
NAMES = ["sync directory t-0", "sync directory ."]
SYNCED_EPOCHS = [f"sync {EPOCHS}", "sync directory t-0"]


def made(base: int) -> list[str]:
    return [f"remove {base}.index", f"remove {base}.timeindex"]


def removed(base: int) -> list[str]:
    return [f"remove {base}.{suffix}" for suffix in ("log", "index", "timeindex", "snapshot", "txnindex")]


def retired(base: int, *suffixes: str) -> list[str]:
    return [f"rename {base}.{suffix} as {base}.{suffix}.deleted" for suffix in suffixes]


def synced(base: int, *suffixes: str) -> list[str]:
    return [f"sync {base}.{suffix}" for suffix in suffixes]


class World:
    def __init__(self, path: Path) -> None:
        self.path, self.disk = path, RecordedDisk(path)
        self.log = open_log(path, LogConfig(index_interval_bytes=0, retention_ms=8), disk=self.disk)

    def did(self, work: Callable[[PartitionLog], object]) -> list[str]:
        self.disk.take()
        work(self.log)
        return [self.short(call) for call in self.disk.take()]

    def short(self, call: str) -> str:
        call = re.sub(r"\b0{10,}(?=\d)", "", call.replace(str(self.path), "."))
        return re.sub(r"(?<=\s)t-0/", "", call)

    def append(self, *, epoch: int = 0, count: int = 2, producer: tuple[int, int, int] | None = None) -> list[str]:
        return self.did(lambda log: append(log, batch(count, producer=producer), epoch=epoch))

    def cut(self, offset: int) -> list[str]:
        return self.did(lambda log: log.truncate_to(offset))

    def roll(self) -> list[str]:
        return self.did(lambda log: log.load().roll(log.log_end_offset, NOW))


def test_records_are_written_flushed_and_sealed(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.did(PartitionLog.load) == made(0)
    assert world.append() == [f"replace {EPOCHS}", "write 0.log"]
    assert world.append() == ["write 0.log"]
    assert world.did(PartitionLog.flush) == ["sync 0.log", *NAMES, *SYNCED_EPOCHS]
    assert world.did(PartitionLog.flush) == []
    assert world.append() == ["write 0.log"]
    assert world.did(PartitionLog.flush) == ["sync 0.log"]
    assert world.roll() == ["write 0.index", "write 0.timeindex", *made(6)]
    assert world.roll() == [], "it is empty and begins there"
    assert world.append() == ["write 6.log"]
    assert world.did(PartitionLog.flush) == [*synced(0, "log", "index", "timeindex"), "sync 6.log", *NAMES]
    assert world.append(epoch=3) == [f"replace {EPOCHS}", "write 6.log"]
    world.roll()
    world.append(epoch=3)
    due_ms = NOW + SEALED_FLUSH_DELAY_MS
    assert world.did(lambda log: log.maybe_flush(due_ms - 1)) == []
    sealed = synced(6, "log", "index", "timeindex")
    assert world.did(lambda log: log.maybe_flush(due_ms)) == [*sealed, *NAMES, *SYNCED_EPOCHS]


def test_what_takes_the_place_of_other_records_is_synced_when_it_is_sealed(tmp_path: Path) -> None:
    """And with a whole segment that goes, before anything is in its place."""
    world = World(tmp_path)
    for base in (0, 3):
        for _ in range(3):
            world.append(count=1)
        if base == 0:
            world.roll()
    world.did(PartitionLog.flush)
    assert world.cut(4) == ["truncate 3.log"]
    assert world.append(epoch=1) == [f"replace {EPOCHS}", "write 3.log"]
    indexes = ["write 3.index", "sync 3.index", "write 3.timeindex", "sync 3.timeindex"]
    assert world.roll() == [*indexes, "sync 3.log", *SYNCED_EPOCHS, *made(6)]
    world.append(epoch=1)
    assert world.roll() == ["write 6.timeindex", *made(8)], "it lies behind all that was cut"
    world.append(epoch=1)
    assert world.cut(7) == [*retired(8, "log"), *NAMES, "truncate 6.log", "truncate 6.timeindex", "sync 6.log"]
    assert world.cut(5) == [*removed(6), *NAMES, "truncate 3.log", "truncate 3.index", f"replace {EPOCHS}"]
    assert world.cut(0) == [*retired(3, *FILES), *retired(0, *FILES), *made(0), f"replace {EPOCHS}"]


def test_what_is_not_needed_any_more_is_removed_at_once_or_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(4):
        world.append(count=3, producer=(5, 0, 3 * number))
        world.roll()
    world.did(PartitionLog.flush)
    assert world.did(lambda log: log.retire_before(4)) == [
        f"replace {EPOCHS}",
        *retired(0, *FILES),
    ]
    world.did(lambda log: log.advance_log_start(7))
    assert world.did(lambda log: log.retire_below_start(NOW)) == ["remove 3.snapshot", *retired(3, *FILES)]
    world.did(lambda log: append(log, batch(2)))
    assert world.did(lambda log: log.apply_retention(NOW + 9)) == [
        *("write 12.timeindex", "replace 14.snapshot", *made(14)),
        *(f"remove {base}.snapshot" for base in (6, 9, 12)),
        f"replace {EPOCHS}",
        *(call for base in (6, 9, 12) for call in retired(base, *FILES)),
    ]


def test_a_log_that_begins_elsewhere_removes_what_it_had(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.did(PartitionLog.load)
    assert world.did(lambda log: log.end_at(5)) == [*made(5), *removed(0)]
    assert world.did(lambda log: log.end_at(5)) == []
    world.append()
    world.did(lambda log: log.close(durable=False))
    anew = [*retired(5, *FILES), *made(20), f"replace {EPOCHS}"]
    assert world.did(lambda log: log.truncate_fully_and_start_at(20)) == anew
    durably = [*removed(20), *made(22), *SYNCED_EPOCHS, *NAMES]
    assert world.did(lambda log: log.truncate_fully_and_start_at(22, durable=True)) == durably


@pytest.mark.parametrize("durable", [True, False])
def test_a_close_writes_what_the_next_start_goes_on_from(tmp_path: Path, *, durable: bool) -> None:
    world = World(tmp_path)
    world.did(lambda log: append_all(log, written(9, 0), ended(9, ControlType.ABORT)))
    assert world.roll() == ["write 0.index", "write 0.timeindex", *made(2)]
    aborted = ["sync 0.txnindex", "sync directory t-0"]
    assert world.did(lambda log: log.maybe_flush(NOW)) == [*aborted, "replace 2.snapshot"]
    world.did(lambda log: append_all(log, written(9, 1), ended(9, ControlType.ABORT)))
    flushed = [*synced(0, "log", "index", "timeindex"), "sync 2.log", *NAMES, *SYNCED_EPOCHS]
    indexes = ["write 2.index", "sync 2.index", "write 2.timeindex", "sync 2.timeindex"]
    aborted = ["sync 2.txnindex", "sync directory t-0"]
    assert world.did(lambda log: log.close(durable=durable)) == (
        [*flushed, *indexes, *aborted, "replace durably 4.snapshot"]
        if durable
        else [*indexes[::2], "replace 4.snapshot"]
    )
    assert world.did(PartitionLog.load) == []
    assert world.did(lambda log: log.close(durable=durable)) == []


@pytest.mark.parametrize("content", [b"", b"left"])
def test_a_segment_begins_empty_and_its_file_is_cut_only_where_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A file system may write out, while it is closed, all that a file has that was cut to nothing."""
    cuts, truncate = list[int](), OpenFile.truncate

    def noted(file: OpenFile, size: int) -> None:
        cuts.append(size)
        truncate(file, size)

    monkeypatch.setattr(OpenFile, "truncate", noted)
    segment = Segment(OpenFiles(Disk(), 1), str(tmp_path), 7)
    Path(segment.path).write_bytes(content)
    segment.create()
    assert Path(segment.path).read_bytes() == b""
    assert cuts == ([0] if content else [])
