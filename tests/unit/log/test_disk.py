"""Files whose system takes and gives less than it is asked for, as it may at any call."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.log.disk import Disk


@pytest.fixture(params=[1, 3, 1000])
def at_most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many bytes with a call."""
    most: int = request.param
    read, write = os.pread, os.pwrite

    def reads(fd: int, length: int, position: int) -> bytes:
        return read(fd, min(length, most), position)

    def writes(fd: int, data: Any, position: int) -> int:
        return write(fd, memoryview(data)[:most], position)

    monkeypatch.setattr(os, "pread", reads)
    monkeypatch.setattr(os, "pwrite", writes)
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
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="No space left"):
        Disk().open(str(tmp_path / "f"), create=True).write_at(b"x", 0)


def test_a_file_is_read_whole_however_large_it_is(tmp_path: Path) -> None:
    for size in (0, 1, 4095, 4096, 4097, (1 << 20) + 4096, (2 << 20) + 4097):
        content = Random(size).randbytes(size)
        Disk().replace_file(str(tmp_path / "f"), content, durable=False)
        assert Disk().read_file(str(tmp_path / "f")) == content
    assert Disk().read_file(str(tmp_path / "g")) is None
