"""Where segments end, whoever writes them, beside a plain model that asks of each batch whether it still fits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log import log_content, rolling
from penstock.log.config import LogConfig
from penstock.log.log_content import LogContent
from penstock.log.offset_index import OFFSET_ENTRY
from penstock.log.partition_log import PartitionLog
from penstock.log.rolling import Room
from penstock.log.segment import MAX_RELATIVE_OFFSET
from penstock.log.time_index import TIME_ENTRY
from penstock.protocol.batch import read_header, set_place
from penstock.protocol.records import Record, encode_batch

GAPS = (0,) * 30 + (1, 100, MAX_RELATIVE_OFFSET - 2, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 2)


@dataclass
class Plain:
    """A segment, and what its indexes have."""

    base: int
    created_ms: int | None = None
    size: int = 0
    first_ms: int = -1
    latest_ms: int = -1
    indexed_ms: int = -1
    offset_entries: int = 0
    time_entries: int = 0
    since_entry: int = 0

    def has_room(self, path: str, config: LogConfig, size: int, last_offset: int, time_ms: int, now_ms: int) -> bool:
        if last_offset - self.base > MAX_RELATIVE_OFFSET:
            return False
        if not self.size:
            return True
        jitter_ms = crc32(path.encode()) % config.segment_jitter_ms if config.segment_jitter_ms else 0
        created_ms = now_ms if self.created_ms is None else self.created_ms
        age_ms = time_ms - self.first_ms if self.first_ms >= 0 else now_ms - created_ms
        return (
            self.size + size <= config.segment_bytes
            and age_ms <= config.segment_ms - jitter_ms
            and self.offset_entries < config.segment_index_bytes // OFFSET_ENTRY.size
            and self.time_entries < config.segment_index_bytes // TIME_ENTRY.size - 1
        )

    def note(self, size: int, time_ms: int, interval: int) -> None:
        self.first_ms = self.first_ms if self.size else time_ms
        self.latest_ms = max(self.latest_ms, time_ms)
        if self.since_entry > interval:
            self.offset_entries += 1
            self.note_latest()
            self.since_entry = 0
        self.since_entry += size
        self.size += size

    def note_latest(self) -> None:
        if self.latest_ms > self.indexed_ms:
            self.indexed_ms = self.latest_ms
            self.time_entries += 1


class History:
    def __init__(self, path: Path, seed: int) -> None:
        self.random, self.path = Random(seed), path
        self.config = self.drawn_config()
        self.log = open_log(path, self.config)
        self.plain, self.end, self.now_ms, self.epoch = [Plain(0)], 0, NOW, 0

    def drawn_config(self) -> LogConfig:
        choice = self.random.choice
        return LogConfig(
            segment_bytes=choice((300, 1_000, 100_000)),
            segment_ms=choice((20, 1_000_000)),
            segment_jitter_ms=choice((0, 10)),
            segment_index_bytes=choice((36, 48, 60, 10_000)),
            index_interval_bytes=choice((0, 1, 100, 300)),
        )

    def batch(self, base_offset: int = 0) -> bytes:
        time_ms = self.now_ms - self.random.randrange(4) if self.random.random() < 0.9 else -1
        records = [Record(0, time_ms, b"k", b"v" * self.random.randrange(60))] * self.random.randint(1, 2)
        return bytes(encode_batch(records, base_offset=base_offset, partition_leader_epoch=self.epoch))

    def step(self) -> None:
        self.now_ms += self.random.randrange(4)
        kind = self.random.randrange(20)
        if kind < 9:
            batch = self.batch()
            header = read_header(batch)
            self.log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=self.epoch, now_ms=self.now_ms)
            self.note(len(batch), self.end + header.last_offset_delta, header.max_timestamp, self.now_ms)
        elif kind < 17:
            self.follow()
        elif kind == 17:
            self.epoch += 1
        elif kind == 18:
            self.config = self.log.config = self.drawn_config()
        else:
            self.restart()
        assert [(one.base_offset, one.size) for one in self.log.segments] == [
            (one.base, one.size) for one in self.plain
        ]
        assert self.log.log_end_offset == self.end

    def follow(self) -> None:
        batches, base_offset = [], self.end
        for _ in range(self.random.randint(1, 6)):
            base_offset += self.random.choice(GAPS)
            batches.append(self.batch(base_offset))
            base_offset += read_header(batches[-1]).last_offset_delta + 1
        for one in batches:
            header = read_header(one)
            self.note(len(one), header.last_offset, header.max_timestamp, header.max_timestamp)
        self.log.append_as_follower(memoryview(b"".join(batches)))

    def restart(self) -> None:
        self.log.close()
        self.plain[-1].note_latest()
        self.plain[-1].created_ms = None
        self.log = open_log(self.path, self.config, is_clean=True, recovery_point=self.end)

    def note(self, size: int, last_offset: int, time_ms: int, now_ms: int) -> None:
        active = self.plain[-1]
        path = f"{self.log.directory}/{active.base:020d}.log"
        if not active.has_room(path, self.config, size, last_offset, time_ms, now_ms):
            new = Plain(max(self.end, last_offset - MAX_RELATIVE_OFFSET), now_ms)
            self.plain = [*(self.plain if active.size else self.plain[:-1]), new]
        active = self.plain[-1]
        if active.created_ms is None:
            active.created_ms = now_ms
        active.note(size, time_ms, self.config.index_interval_bytes)
        self.end = last_offset + 1


@pytest.mark.parametrize("seed", range(10))
def test_segments_end_where_the_plain_model_says(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(80):
        history.step()
    assert len(history.plain) > 3
    offsets, times = history.log.segments[-1].indexes()
    active = history.plain[-1]
    assert (len(offsets.entries), len(times.entries)) == (active.offset_entries, active.time_entries)


def append_one(log: PartitionLog) -> None:
    append(log, batch(1))


def follow(log: PartitionLog) -> None:
    sent = batch(1)
    set_place(sent, read_header(sent), log.log_end_offset, 0)
    log.append_as_follower(sent)


@pytest.mark.parametrize("add", [append_one, follow])
def test_within_its_room_a_segment_takes_batches_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, add: Callable[[PartitionLog], None]
) -> None:
    """From both sides of each limit; a follower writes what fits for sure without a look at each batch."""
    asked, looked_at = list[int](), list[int]()
    is_over, look_at = rolling.must_roll, LogContent.append

    def must_roll(*about: Any) -> bool:
        asked.append(1)
        return is_over(*about)

    def look(content: LogContent, *about: Any) -> None:
        looked_at.append(1)
        look_at(content, *about)

    log, size = open_log(tmp_path), len(batch(1))
    add(log)
    add(log)
    monkeypatch.setattr(log_content, "must_roll", must_roll)
    monkeypatch.setattr(LogContent, "append", look)
    content = log.load()
    for limit, enough in (
        ("size", size),
        ("last_offset", 0),
        ("timestamp", 0),
        (None, 0),
        ("config", 0),
        ("segment", 0),
    ):
        for less in (0, 1):
            asked.clear()
            looked_at.clear()
            content._room = room = Room(content.segments.active, log.config)
            base = {"size": content.segments.active.size, "last_offset": content.end_offset, "timestamp": NOW}
            if limit in base:
                setattr(room, limit, base[limit] + enough - less)
            elif limit is not None and less:
                setattr(room, limit, None)
            add(log)
            is_asked = bool(less) and limit is not None
            assert (len(asked), content._room is room) == (is_asked, not is_asked), limit
            assert len(looked_at) == (is_asked or add is not follow), limit
