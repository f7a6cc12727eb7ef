"""Logs that are made, moved, set aside and deleted in three directories, beside a table of what lies where.

Whatever happened, a start finds the logs that there are, in the right place, with their records, and what checkpoints
say of a name is never said of a later log of that name.
"""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import CONFIG, write_checkpoints, write_cleaned_offsets, write_high_watermarks
from tests.unit.log.logs import NOW, append, batch, values
from tests.unit.log.removed import remove_due

from penstock.log.directories import directory
from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk, OpenFile
from penstock.log.names import parse_partition_directory
from penstock.log.partition_log import PartitionLog
from penstock.protocol.batch import read_header

Key = tuple[str, int]
KEYS: list[Key] = [("a", 0), ("a", 1), ("b-0", 0), ("c", 12)]
IDS = [UUID(int=7), UUID(int=8)]


class KilledError(Exception):
    """The process ends here."""


class MortalDisk(Disk):
    """Ends the process before a rename, where it is told to."""

    __slots__ = ("renames_left",)

    def __init__(self) -> None:
        self.renames_left = -1

    def rename(self, source: str, target: str) -> None:
        self.renames_left -= 1
        if self.renames_left == -1:
            raise KilledError
        super().rename(source, target)


@dataclass
class Known:
    """A log, and what checkpoints have of it."""

    topic_id: UUID
    path: str
    base: int = 0
    start: int = 0
    values: list[bytes] = field(default_factory=list)
    cleaned: int = 0
    written_start: int = 0
    written_cleaned: int = 0
    high_watermark: int | None = None

    @property
    def end(self) -> int:
        return len(self.values)


class World:
    def __init__(self, path: Path, seed: int) -> None:
        self.random, self.disk = Random(seed), MortalDisk()
        self.paths = [str(path / name) for name in ("p", "q", "r")]
        self.known: dict[Key, Known] = {}
        self.futures: dict[Key, str] = {}
        self.cordoned: list[str] = []
        self.now_ms = NOW
        self.moves = self.deaths = self.strays = 0
        self.open()

    def open(self) -> None:
        self.disk.renames_left = -1
        self.directories = LogDirectories(self.paths, node_id=1, random=Random(self.random.random()), disk=self.disk)
        self.directories.open_all(lambda _: CONFIG)
        self.directories.begin()
        self.directories.roots.cordon(self.cordoned)

    def step(self) -> None:
        self.now_ms += self.random.randrange(300)
        key = self.random.choice(KEYS)
        kind = self.random.randrange(24)
        if kind < 4:
            self.create(key)
        elif kind < 15 and key in self.known:
            action = self.change if kind < 10 else self.take_away if kind < 12 else self.move
            action(key)
        else:
            others = [self.drop_future, self.cordon, *[self.write_checkpoints] * 3, self.remove_due]
            self.random.choice([*others, self.restart, self.die])()
        self.check()

    def drop_future(self) -> None:
        if self.futures:
            key = self.random.choice(list(self.futures))
            self.directories.drop_future(key, self.now_ms)
            del self.futures[key]

    def cordon(self) -> None:
        self.cordoned = self.random.sample(self.paths, self.random.randrange(4))
        self.directories.roots.cordon(self.cordoned)

    def remove_due(self) -> None:
        remove_due(self.directories, self.now_ms)
        due_ms = self.directories.next_removal_ms()
        assert due_ms is None or due_ms > self.now_ms

    def log(self, key: Key) -> PartitionLog:
        log = self.directories.logs[key]
        assert self.directories.claim(log, self.known[key].topic_id)
        assert not self.directories.claim(log, UUID(int=9))
        return log

    def create(self, key: Key) -> None:
        topic_id, known = self.random.choice(IDS), self.known.get(key)
        preferred = self.random.choice((None, None, *self.paths))
        assigned = self.random.choice((None, None, None, *self.directories.roots.online_ids))
        if preferred is not None:
            self.directories.preferred[key] = preferred
        log = self.directories.create(*key, topic_id, CONFIG, assigned=assigned)
        assert self.directories.logs[key] is log
        if known is not None and known.topic_id == topic_id:
            self.directories.preferred.clear()
            return
        if known is not None:
            del self.known[key]
            self.strays += 1
        by_id = [path for path in self.paths if self.directories.roots.id_of(path) == assigned]
        could = [path for path in self.paths if path not in self.cordoned] or self.paths
        fewest = min(could, key=lambda path: sum(one.path == path for one in self.known.values()))
        self.known[key] = Known(topic_id, preferred or (by_id[0] if by_id else fewest))
        assert not self.directories.preferred

    def change(self, key: Key) -> None:
        log, known = self.log(key), self.known[key]
        kind = self.random.randrange(4)
        if kind < 2:
            value = b"%d" % self.random.randrange(1000)
            known.values.append(value)
            append(log, batch(1, value=value))
        elif kind == 2:
            known.start = self.random.randint(known.start, known.end)
            log.advance_log_start(known.start)
        else:
            known.cleaned = log.cleaned_to = self.random.randint(0, known.end)

    def take_away(self, key: Key) -> None:
        log = self.log(key)
        if self.random.random() < 0.6:
            self.directories.delete(log, self.now_ms)
        else:
            self.directories.set_aside(log)
            self.strays += 1
        del self.known[key]
        if self.futures.pop(key, None) is not None:
            self.directories.drop_future(key, self.now_ms)

    def move(self, key: Key) -> None:
        if key in self.futures:
            return
        log, known = self.log(key), self.known[key]
        target = self.random.choice([path for path in self.paths if path != known.path])
        future = self.directories.create_future(log, target, known.start, known.topic_id)
        self.futures[key] = target
        if self.random.random() < 0.3:
            return
        while future.log_end_offset < known.end:
            future.append_as_follower(memoryview(log.read(future.log_end_offset, 1 << 20).read()))
        future.close()
        self.disk.renames_left = dies_at = self.random.choice((-1, -1, -1, 0, 1))
        self.moves += 1
        try:
            gone = self.directories.swap(log)
        except KilledError:
            if dies_at == 1:  # the original is renamed: the next start goes on with that
                self.arrived(key)
            self.die()
            return
        self.arrived(key)
        if self.random.random() < 0.2:
            self.die()
            return
        self.directories.swapped(log, gone, self.now_ms)
        assert (log.is_loaded, log.is_trusted, log.recovery_point) == (False, True, self.known[key].end)

    def arrived(self, key: Key) -> None:
        known = self.known[key]
        known.path, known.base = self.futures.pop(key), known.start
        known.written_start = known.written_cleaned = 0
        known.high_watermark = None

    def write_checkpoints(self) -> None:
        match self.random.randrange(3):
            case 0:
                write_checkpoints(self.directories)
                self.written()
            case 1:
                write_cleaned_offsets(self.directories)
                for known in self.known.values():
                    known.written_cleaned = known.cleaned
            case 2:
                offsets = {key: self.random.randrange(9) for key in KEYS if self.random.random() < 0.8}
                write_high_watermarks(self.directories, offsets)
                for key, known in self.known.items():
                    known.high_watermark = offsets.get(key)

    def written(self) -> None:
        for known in self.known.values():
            known.written_start, known.written_cleaned = known.start, known.cleaned

    def restart(self) -> None:
        self.directories.close()
        self.written()
        self.open()
        self.check_content()

    def die(self) -> None:
        self.deaths += 1
        self.directories.abandon()
        for known in self.known.values():
            known.start, known.cleaned = max(known.base, known.written_start), known.written_cleaned
        self.open()
        self.check_content()

    def check_content(self) -> None:
        assert not self.directories.twins
        logs = self.directories.logs
        wanted = {key: known.high_watermark for key, known in self.known.items() if known.high_watermark is not None}
        assert self.directories.checkpoints.high_watermarks(logs) == wanted
        for key, known in self.known.items():
            log, found = logs[key], list[bytes | None]()
            assert log.log_end_offset == known.end, "also before it is read in"
            while known.start + len(found) < known.end:
                data = log.read(known.start + len(found), 1).read()
                assert read_header(data).base_offset == known.start + len(found)
                found += values(data)
            assert found == known.values[known.start :]

    def check(self) -> None:
        logs = self.directories.logs
        assert logs.keys() == self.known.keys()
        assert {key: future.parent for key, future in self.directories.futures.items()} == self.futures
        for key, known in self.known.items():
            log = logs[key]
            assert (log.parent, log.topic_id, log.cleaned_to) == (known.path, known.topic_id, known.cleaned)
            assert (log.log_start_offset, log.log_end_offset) == (known.start, known.end)
        names = [one.name for path in self.paths for one in Path(path).iterdir() if one.is_dir()]
        assert sum(name.endswith("-stray") for name in names) == self.strays
        assert sum(name.endswith("-future") for name in names) == len(self.futures)
        assert sum(parse_partition_directory(name) in self.known for name in names) == len(self.known)


@pytest.mark.parametrize("seed", range(8))
def test_logs_are_where_the_table_says(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half of the histories a stop syncs the disk as a whole."""
    if seed % 2:
        monkeypatch.setattr(directory, "MAX_SINGLE_SYNCS", 0)
        monkeypatch.setattr(OpenFile, "sync_file_system", lambda file: file.sync())
    world = World(tmp_path, seed)
    for _ in range(80):
        world.step()
    assert world.moves
    assert world.deaths
    remove_due(world.directories, world.now_ms + 10**6)
    assert not [one for path in world.paths for one in Path(path).iterdir() if one.name.endswith("-delete")]
    world.directories.close()
