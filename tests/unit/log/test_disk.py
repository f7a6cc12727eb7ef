"""Files whose system takes and gives less than it is asked for, as it may at any call."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.log import disk as module
from penstock.log.disk import Disk, SyncFailedError


@pytest.fixture(params=[1, 3, 1000])
def at_most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many bytes with a call."""
    most: int = request.param
    read, write = os.pread, os.pwrite

    def reads(fd: int, length: int, position: int) -> bytes:
        return read(fd, min(length, most), position)

    def writes(fd: int, data: Any, position: int) -> int:
        return write(fd, memoryview(data)[:most], position)

    monkeypatch.setattr(module, "os", stand_in(os, pread=reads, pwrite=writes))
    return most


@pytest.mark.usefixtures("at_most")
def test_a_file_is_what_was_written_to_it(tmp_path: Path) -> None:
    random, model, file = Random(1), bytearray(), Disk().open(str(tmp_path / "f"), create=True)
    for _ in range(50):
        position, data = random.randint(0, len(model)), random.randbytes(random.randrange(12))
        file.write_at(random.choice((bytes, bytearray, memoryview))(data), position)
        model[position : position + len(data)] = data
        begin, length = random.randrange(len(model) + 4), random.randrange(20)
        assert file.read_at(length, begin) == model[begin : begin + length]
        if random.random() < 0.1:
            del model[begin:]
            file.truncate(len(model))
        assert file.size() == len(model)
    assert (tmp_path / "f").read_bytes() == model


def test_a_file_that_takes_nothing_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "os", stand_in(os, pwrite=lambda *_: 0))
    with pytest.raises(OSError, match="No space left"):
        Disk().open(str(tmp_path / "f"), create=True).write_at(b"x", 0)


def test_a_file_is_read_whole_however_large_it_is(tmp_path: Path) -> None:
    for size in (0, 1, 4095, 4096, 4097, (1 << 20) + 4096, (2 << 20) + 4097):
        content = Random(size).randbytes(size)
        Disk().replace_file(str(tmp_path / "f"), content, durable=False)
        assert Disk().read_file(str(tmp_path / "f")) == content
    assert Disk().read_file(str(tmp_path / "g")) is None


def test_what_is_to_last_is_synced_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()

    def take() -> list[int]:
        done, synced[:] = [*synced], []
        return done

    monkeypatch.setattr(module, "os", stand_in(os, fsync=lambda fd: synced.append(os.fstat(fd).st_ino)))
    path, folder = tmp_path / "f", tmp_path.stat().st_ino
    file = Disk().open(str(path), create=True)
    file.write_at(b"x", 0)
    assert take() == []
    file.sync()
    assert take() == [path.stat().st_ino]
    Disk().sync_directory(str(tmp_path))
    assert take() == [folder]
    Disk().replace_file(str(path), b"y", durable=False)
    assert take() == []
    Disk().replace_file(str(path), b"z", durable=True)
    assert take() == [path.stat().st_ino, folder]

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module, "os", stand_in(os, fsync=fail))
    for call in (file.sync, lambda: Disk().sync_directory(str(tmp_path))):
        with pytest.raises(SyncFailedError) as failed:
            call()
        assert (failed.value.errno, failed.value.strerror) == (errno.EIO, "Input/output error")


def test_directories_are_made_with_those_above_them_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disk = Disk()
    for path in ("a", "b/c/d", str(tmp_path / "e" / "f")):
        assert not disk.has_directory(path)
        for _ in range(2):
            disk.make_directory(path, parents=True)
            assert disk.has_directory(path)
            assert (tmp_path / path).stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileNotFoundError):
        disk.make_directory("g/h")
    disk.make_directory("a/i")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        disk.make_directory("file")
    for path in ("file", "file/below"):
        with pytest.raises(NotADirectoryError):
            disk.has_directory(path)


@pytest.mark.parametrize(
    ("may", "flags", "number"),
    [
        (True, os.ST_RDONLY, None),
        (False, os.ST_RDONLY | os.ST_NOSUID, errno.EROFS),
        (False, os.ST_NOSUID, errno.EACCES),
    ],
)
def test_where_no_directory_can_be_made_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may: bool, flags: int, number: int | None
) -> None:
    class System:
        f_flag = flags

    def access(path: str, mode: int) -> bool:
        return (path, mode) == (str(tmp_path), os.W_OK | os.X_OK) and may

    monkeypatch.setattr(module, "os", stand_in(os, access=access, statvfs=lambda path: System()))
    assert Disk().has_directory(str(tmp_path)), "it is there, whoever may write it"
    if number is None:
        assert not Disk().has_directory(str(tmp_path / "a" / "b"))
        return
    with pytest.raises(OSError, match=os.strerror(number)) as refused:
        Disk().has_directory(str(tmp_path / "a" / "b"))
    assert (refused.value.errno, refused.value.filename) == (number, str(tmp_path))


def test_a_lock_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = Disk().lock(path)
    assert held is not None
    assert Disk().lock(path) is None
    held.close()
    assert held.fd == -1
    held.close()
    again = Disk().lock(path)
    assert again is not None


def test_what_is_in_a_directory(tmp_path: Path) -> None:
    disk, path = Disk(), str(tmp_path)
    for name, size in (("b.log", 3), ("a.log", 4), ("c.index", 5)):
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / "d").mkdir()
    assert (disk.names(path), list(disk.directories(path))) == (["a.log", "b.log", "c.index", "d"], ["d"])
    sizes = disk.sizes(path)
    assert {name: sizes[name] for name in ("a.log", "c.index")} == {"a.log": 4, "c.index": 5}
    assert (disk.bytes_of_files(path, ".log"), disk.bytes_of_files(f"{path}/e", ".log")) == (7, 0)
    assert (disk.file_size(f"{path}/b.log"), disk.file_size(f"{path}/e"), disk.names(f"{path}/e")) == (3, 0, [])
    disk.set_modified_ms(f"{path}/b.log", 1_234_567)
    assert (disk.modified_ms(f"{path}/b.log"), (tmp_path / "b.log").stat().st_mtime) == (1_234_567, 1_234.567)
    looked = disk.in_threads(lambda name: name.endswith("7"), [str(number) for number in range(600)], 3)
    assert looked == [number % 10 == 7 for number in range(600)]
    assert [disk.is_directory(f"{path}/{name}") for name in ("a.log", "d", "e")] == [False, True, False]
    assert [disk.exists(f"{path}/{name}") for name in ("a.log", "d", "e")] == [True, True, False]
    total, free = disk.space(path)
    assert 0 < free <= total


def test_what_the_page_cache_has_of_a_file_can_be_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[int, ...]]()
    system = stand_in(os, posix_fadvise=lambda *about: asked.append(about), POSIX_FADV_DONTNEED=4)
    monkeypatch.setattr(module, "os", system)
    file = Disk().open(str(tmp_path / "f"), create=True)
    file.forget_cache()
    assert asked == [(file.fd, 0, 0, 4)]


def test_a_file_system_is_synced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, synced, fails = Disk().open(str(tmp_path / "f"), create=True), list[object](), 0

    class Linux:
        def syncfs(self, fd: int) -> int:
            synced.append(fd)
            return fails

    def opened(name: None, *, use_errno: bool) -> Linux | None:
        return Linux() if use_errno and name is None else None

    foreign = stand_in(ctypes, CDLL=opened, get_errno=lambda: errno.EIO)
    monkeypatch.setitem(sys.modules, "ctypes", cast("Any", foreign))
    monkeypatch.setattr(module, "os", stand_in(os, sync=lambda: synced.append("all")))
    file.sync_file_system()
    fails = -1
    with pytest.raises(SyncFailedError, match="Input/output error"):
        file.sync_file_system()
    assert synced == [file.fd] * 2
    foreign.CDLL = lambda *_, **__: object()
    file.sync_file_system()
    assert synced[2:] == ["all"]
