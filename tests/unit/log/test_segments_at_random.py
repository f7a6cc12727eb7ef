"""A segment beside a list of its batches: whatever is written, cut, damaged and recovered, it says what is there."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.logs import NOW

from penstock.log.disk import Disk, OpenFile
from penstock.log.offset_index import OFFSET_ENTRY
from penstock.log.open_files import OpenFiles
from penstock.log.recovery import recover_segment
from penstock.log.segment import MAX_RELATIVE_OFFSET, READ_ENDS, REBUILT_INDEX_INTERVAL_BYTES, Segment
from penstock.log.time_index import TIME_ENTRY
from penstock.protocol.records import Record, encode_batch

BASE = 50


class SmallFile(OpenFile):
    """It takes no more bytes than its disk has room for, and cannot always be cut then."""

    __slots__ = ("_disk",)

    def __init__(self, fd: int, disk: "SmallDisk") -> None:
        super().__init__(fd)
        self._disk = disk

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._disk.room is not None:
            super().write_at(data[: self._disk.room], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_at(data, position)

    def read_at(self, length: int, position: int) -> bytes:
        self._disk.reads += 1
        return super().read_at(length, position)

    def truncate(self, size: int) -> None:
        self._disk.truncations += 1
        if not self._disk.can_cut:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(size)

    def sync(self) -> None:
        self._disk.syncs += 1


class SmallDisk(Disk):
    __slots__ = ("can_cut", "reads", "room", "syncs", "truncations")

    def __init__(self) -> None:
        self.room: int | None = None
        self.can_cut = True
        self.reads = self.syncs = self.truncations = 0

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        opened = super().open(path, create=create)
        fd, opened.fd = opened.fd, -1
        return SmallFile(fd, self)


@dataclass(frozen=True)
class Batch:
    base: int
    last: int
    position: int
    size: int
    time_ms: int
    content: bytes


class World:
    def __init__(self, path: Path, seed: int) -> None:
        self.random, self.path, self.disk = Random(seed), path, SmallDisk()
        self.interval = self.random.choice((0, 80, 200, 300))
        self.open_files = OpenFiles(self.disk, 1)
        for suffix in ("log", "index", "timeindex"):  # of an earlier segment
            self.file(suffix).write_bytes(bytes(80))
        self.segment = Segment(self.open_files, str(path), BASE)
        self.segment.create()
        assert [one.name for one in path.iterdir()] == [self.file("log").name]
        self.batches = list[Batch]()
        self.offsets, self.times = list[tuple[int, int]](), list[tuple[int, int]]()
        self.since = 0
        self.ends: dict[int, int] = {}
        self.is_adopted, self.is_torn = True, False

    def file(self, suffix: str) -> Path:
        return self.path / f"{BASE:020d}.{suffix}"

    # What holds.

    @property
    def size(self) -> int:
        return sum(one.size for one in self.batches)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else BASE

    def latest(self) -> tuple[int, int]:
        """The latest time, and the end of the first batch that has it."""
        times = [one.time_ms for one in self.batches]
        if max(times, default=-1) < 0:
            return -1, BASE
        return max(times), self.batches[times.index(max(times))].last

    def found(self, offset: int) -> tuple[int, int, int, int] | None:
        one = next((one for one in self.batches if one.last >= offset), None)
        return None if one is None else (one.position, one.size, one.base, one.last)

    def note_time(self, latest: tuple[int, int]) -> None:
        if latest[0] > (self.times[-1][0] if self.times else -1):
            self.times.append((latest[0], latest[1] - BASE))

    def index(self, interval: int) -> None:
        """All of it anew."""
        self.offsets, self.times, self.since, batches = [], [], 0, self.batches
        for number, one in enumerate(batches):
            self.batches = batches[: number + 1]
            if self.since > interval:
                self.offsets.append((one.last - BASE, one.position))
                self.note_time(self.latest())
                self.since = 0
            self.since += one.size

    # What happens.

    def step(self) -> None:
        actions = [*[self.append] * 8, *[self.cut] * 2, self.read_to_end, self.read_to_end, self.fail]
        others = [self.save, self.reopen, self.damage, self.crash, self.rebuild, self.lose_file, self.flush]
        self.random.choice([*actions, *others])()
        self.check()

    def batch(self) -> Batch:
        random = self.random
        time_ms = -1 if random.random() < 0.2 else NOW + random.randrange(-20, 20)
        base, count = self.end + random.choice((0, 0, 0, 3)), random.randint(1, 3)
        records = [Record(number, time_ms, b"k", b"v" * random.choice((0, 5, 50))) for number in range(count)]
        content = bytes(encode_batch(records, base_offset=base))
        return Batch(base, base + count - 1, self.size, len(content), time_ms, content)

    def append(self) -> None:
        self.adopt()
        if self.random.random() < 0.3:
            self.lose_file()
        one = self.batch()
        before, self.segment.recently_used = self.disk.truncations, False
        self.segment.write(one.content)
        assert self.segment.recently_used
        assert self.disk.truncations - before == self.is_torn
        self.is_torn = False
        self.segment.note_batch(one.base, one.last, one.size, one.time_ms, self.interval)
        self.batches.append(one)
        if self.since > self.interval:
            self.offsets.append((one.last - BASE, one.position))
            self.note_time(self.latest())
            self.since = 0
        self.since += one.size
        assert self.segment.first_timestamp is not None or len(self.batches) > 1, "nobody has to look for it"
        if self.random.random() < 0.5:
            self.read_to_end()

    def fail(self) -> None:
        """The disk is full, and perhaps broken as well."""
        self.adopt()
        self.disk.room, self.disk.can_cut = self.random.randrange(60), self.random.random() < 0.5
        with pytest.raises(OSError, match="No space" if self.disk.can_cut else "Input/output"):
            self.segment.write(self.batch().content)
        self.is_torn = not self.disk.can_cut
        self.disk.room, self.disk.can_cut = None, True

    def cut(self) -> None:
        offset = self.random.randint(max(BASE, self.end - 8), self.end + 1)
        found = self.found(offset)
        assert self.segment.truncate_to(offset) == (None if found is None else self.end_before(offset))
        self.ends, self.is_adopted = {}, True
        if found is None:
            return
        self.batches = [one for one in self.batches if one.last < offset]
        self.offsets = [one for one in self.offsets if one[1] < self.size]
        self.times = [one for one in self.times if one[0] >= 0 and one[1] + BASE < offset]
        self.since = self.size - (self.offsets[-1][1] if self.offsets else 0)

    def end_before(self, offset: int) -> int:
        return max((one.last + 1 for one in self.batches if one.last < offset), default=BASE)

    def read_to_end(self) -> None:
        self.adopt()
        self.segment.note_read_to_end()
        if len(self.ends) == READ_ENDS and self.end not in self.ends:
            del self.ends[next(iter(self.ends))]
        self.ends[self.end] = self.size

    def save(self) -> None:
        is_final, durable = self.random.random() < 0.5, self.random.random() < 0.5
        self.segment.indexes()
        self.segment.save_indexes(is_final=is_final, durable=durable)
        if is_final:
            self.note_time(self.latest())
        if is_final or self.size:
            assert self.files() == self.packed(), "both are there as a whole"

    def files(self) -> list[bytes]:
        return [path.read_bytes() if path.exists() else b"" for path in map(self.file, ("index", "timeindex"))]

    def packed(self) -> list[bytes]:
        tables = ((self.offsets, OFFSET_ENTRY), (self.times, TIME_ENTRY))
        return [b"".join(layout.pack(*one) for one in entries) for entries, layout in tables]

    def close(self) -> None:
        self.adopt()
        self.segment.save_indexes(is_final=True)
        self.note_time(self.latest())
        assert all(self.file(suffix).exists() for suffix in ("index", "timeindex"))
        if self.is_torn:
            self.segment.opened().truncate(self.size)
        self.segment.forget_file()
        assert (self.segment.file, len(self.open_files)) == (None, 0)

    def begin(self) -> None:
        self.segment = Segment(self.open_files, str(self.path), BASE, self.size)
        self.ends, self.is_adopted, self.is_torn = {}, False, False

    def reopen(self) -> None:
        self.close()
        self.begin()
        self.segment.save_indexes(is_final=True)
        assert self.files() == self.packed(), "what was not read is not written"

    def damage(self) -> None:
        """It is sealed, and its indexes make no sense."""
        self.close()
        self.begin()
        if not self.batches:
            return
        kind = self.random.randrange(4)
        if kind == 0:
            self.file("index").unlink()
            self.segment.lacks_index = True
        elif kind == 1:
            self.file(self.random.choice(("index", "timeindex"))).write_bytes(b"\1" * 7)
        elif kind == 2:
            self.file("index").write_bytes(OFFSET_ENTRY.pack(1, self.size))
        else:
            self.file("timeindex").write_bytes(TIME_ENTRY.pack(2 * NOW + 1, 1) + TIME_ENTRY.pack(2 * NOW, 2))
        self.index(REBUILT_INDEX_INTERVAL_BYTES)
        self.note_time(self.latest())
        self.segment.indexes()
        assert self.files() == self.packed(), "they are saved as well"
        self.is_adopted = True

    def crash(self) -> None:
        """Something is lost, or behind the end."""
        self.segment.forget_file()
        path, kept = self.file("log"), self.random.choice((self.size, self.random.randrange(self.size + 1)))
        os.truncate(path, kept)
        with path.open("ab") as file:
            file.write(self.random.choice((b"", b"\7" * 100, self.batches[0].content if self.batches else b"")))
        self.batches = [one for one in self.batches if one.position + one.size <= kept]
        if self.random.random() < 0.5:
            self.begin()
        self.ends, self.is_torn, self.segment.has_torn_tail = {}, False, False
        self.segment.size = path.stat().st_size
        told = list[tuple[int, int]]()
        end = recover_segment(self.segment, self.interval, lambda at, header: told.append((at, header.base_offset)))
        assert end == self.end
        assert told == [(one.position, one.base) for one in self.batches]
        self.index(self.interval)
        self.is_adopted = True
        self.segment.save_indexes()

    def rebuild(self) -> None:
        self.adopt()
        interval = self.random.choice((0, 100, 4096))
        self.segment.rebuild_indexes(interval)
        self.index(interval)
        self.note_time(self.latest())
        self.ends = {}

    def lose_file(self) -> None:
        """Another segment got the descriptor."""
        other = Segment(self.open_files, str(self.path), 9_999)
        self.segment.recently_used = False
        other.create()
        assert self.segment.file is None
        other.forget_file()

    def flush(self) -> None:
        before = self.disk.syncs
        self.segment.flush()
        assert self.disk.syncs - before == bool(self.batches)

    def adopt(self) -> None:
        if not self.is_adopted:
            assert self.segment.adopt_tail() == self.end
            self.is_adopted = True

    def check(self) -> None:
        one = self.segment
        assert (one.size, one.has_torn_tail) == (self.size, self.is_torn)
        assert self.file("log").read_bytes()[: self.size] == b"".join(batch.content for batch in self.batches)
        assert self.is_torn or self.file("log").stat().st_size == self.size
        assert one.rolling_timestamp() == (self.batches[0].time_ms if self.batches else -1)
        reads = self.disk.reads
        assert one.rolling_timestamp() == (self.batches[0].time_ms if self.batches else -1)
        assert (one.opened(), self.disk.reads) == (one.opened(), reads), "it is known, and open"
        assert one.largest_timestamp() == self.latest()[0]
        modified_ms = self.disk.modified_ms(one.path)
        assert one.retention_timestamp() == (self.latest()[0] if self.latest()[0] >= 0 else modified_ms)
        if self.is_adopted:
            assert (one.max_timestamp, one.max_timestamp_offset) == self.latest()
            assert (one.last_offset + 1, one.bytes_since_index_entry) == (self.end, self.since)
            last = self.batches[-1] if self.batches else Batch(BASE, BASE - 1, 0, 0, -1, b"")
            assert (one.last_batch_offset, one.last_batch_position) == (last.base, last.position)
        tables = [
            [entries.entry(number) for number in range(len(entries))]
            for entries in (it.entries for it in one.indexes())
        ]
        assert tables == [self.offsets, self.times]
        for offset in range(BASE - 1, self.end + 2):
            assert one.locate(offset) == self.found(offset)
            assert one.position_to_go_on(offset) == self.ends.get(offset, -1)
            bases = [header.base_offset for _, header in one.headers_from(offset)]
            assert bases == [batch.base for batch in self.batches if batch.last >= offset]
        one.recently_used = False
        one.opened()
        assert one.recently_used


@pytest.mark.parametrize("seed", range(20))
def test_a_segment_is_a_list_of_batches(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(25):
        world.step()


@pytest.mark.parametrize(
    ("offset", "is_believed"), [(-1, False), (0, True), (MAX_RELATIVE_OFFSET, True), (MAX_RELATIVE_OFFSET + 1, False)]
)
def test_offsets_are_believed_that_a_segment_can_have(tmp_path: Path, offset: int, *, is_believed: bool) -> None:
    base = 1 << 33
    segment = Segment(OpenFiles(Disk(), 1), str(tmp_path), base)
    segment.create()
    segment.write(encode_batch([Record()], base_offset=base + offset))
    end = recover_segment(segment, 100, lambda *_: None)
    assert (end, segment.size > 0) == (base + offset + 1 if is_believed else base, is_believed)
