"""What a standalone worker remembers: a file of offsets, and the rest in its memory."""

import asyncio
import json
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from penstock.work.connect.runtime.source_offsets import SourceOffsets
from penstock.work.connect.standalone.logs import FileLog, FileLogError, MemoryLog


async def opened(path: Path) -> SourceOffsets:
    offsets = SourceOffsets(lambda on_record: FileLog(path, on_record))
    await offsets.log.start()
    return offsets


async def test_offsets_outlive_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    offsets = await opened(path)
    assert offsets.get("one", {"filename": "a"}) is None
    await offsets.write("one", [({"filename": "a"}, {"position": 7})])
    await offsets.write("two", [({"filename": "a"}, {"position": 9})])
    again = await opened(path)
    assert [again.get(name, {"filename": "a"}) for name in ("one", "two")] == [{"position": 7}, {"position": 9}]
    assert len(json.loads(path.read_text())) == 2
    assert path.stat().st_mode & 0o777 == 0o600, "for this user alone"
    await again.write("one", [({"filename": "a"}, None)])
    assert again.all_of("one") == (await opened(path)).all_of("one") == []


async def test_those_who_write_at_once_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, texts = tmp_path / "offsets", []
    write = FileLog._write

    def writing(log: FileLog, text: str) -> None:
        texts.append(text)
        write(log, text)

    monkeypatch.setattr(FileLog, "_write", writing)
    offsets = await opened(path)
    await offsets.write("one", [({"n": number}, {"position": number}) for number in range(50)])
    assert len((await opened(path)).all_of("one")) == 50
    assert len(texts) <= 2


async def test_a_write_for_which_nobody_waits_any_more_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begun, may_end = tmp_path / "offsets", Queue[int](), Event()
    write, under_way, most = FileLog._write, list[str](), list[int]()

    def writing(log: FileLog, text: str) -> None:
        under_way.append(text)
        most.append(len(under_way))
        begun.put(len(most))
        may_end.wait(60)
        write(log, text)
        under_way.remove(text)

    monkeypatch.setattr(FileLog, "_write", writing)
    offsets = await opened(path)
    impatient = asyncio.create_task(offsets.write("one", [({"n": 1}, {"position": 1})]))
    await asyncio.to_thread(begun.get, timeout=60)
    impatient.cancel()
    await asyncio.wait([impatient])
    patient = asyncio.create_task(offsets.write("one", [({"n": 2}, {"position": 2})]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stopping = asyncio.create_task(offsets.log.stop())
    await asyncio.sleep(0)
    assert not stopping.done(), "a worker that ends leaves a whole file"
    may_end.set()
    await asyncio.gather(patient, stopping)
    assert most == [1, 1], "one at a time"
    assert len((await opened(path)).all_of("one")) == 2


async def test_a_write_that_fails_is_told_and_the_next_one_writes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(log: FileLog, text: str) -> None:
        raise OSError("no room")

    offsets = await opened(tmp_path / "offsets")
    with monkeypatch.context() as broken:
        broken.setattr(FileLog, "_write", failing)
        with pytest.raises(OSError, match="no room"):
            await offsets.write("one", [({"n": 1}, {"position": 1})])
    await offsets.write("one", [({"n": 2}, {"position": 2})])
    assert len((await opened(tmp_path / "offsets")).all_of("one")) == 2


async def test_the_order_of_a_partitions_words_does_not_matter(tmp_path: Path) -> None:
    offsets = await opened(tmp_path / "offsets")
    await offsets.write("one", [({"a": 1, "b": 2}, {"position": 7})])
    await offsets.write("one", [({"b": 2, "a": 1}, {"position": 8})])
    assert offsets.all_of("one") == [({"a": 1, "b": 2}, {"position": 8})]


@pytest.mark.parametrize("content", [b"\xac\xed\x00\x05", b"[1]", b"7", b"[" * 100_000], ids=len)
async def test_a_file_of_somebody_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(FileLogError, match="cannot be read as a file of offsets"):
        await opened(path)


async def test_memory_tells_of_each_record_at_once_and_that_some_were_read_once() -> None:
    records: list[tuple[bytes, bytes | None, int]] = []
    read: list[int] = []
    log = MemoryLog(lambda *record: records.append(record), lambda: read.append(len(records)))
    await log.start()
    await log.read_to_end()
    assert read == [], "there was nothing"
    for value in (b"1", None):
        await log.put(b"k", value)
    assert (records, read) == ([(b"k", b"1", 0), (b"k", None, 0)], [])
    await asyncio.sleep(0)
    assert read == [2]
    await log.put(b"k", b"2")
    await log.read_to_end()
    await asyncio.sleep(0)
    assert read == [2, 3], "not twice"
