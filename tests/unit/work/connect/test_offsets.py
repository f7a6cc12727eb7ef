import json
from pathlib import Path

import pytest

from penstock.work.connect.offsets import OffsetFile, OffsetFileError


async def test_offsets_outlive_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetFile(path)
    assert store.get("one", {"filename": "a"}) is None
    await store.put("one", {"": ({"filename": "a"}, {"position": 7})})
    await store.put("two", {"": ({"filename": "a"}, {"position": 9})})
    again = OffsetFile(path)
    assert [again.get(name, {"filename": "a"}) for name in ("one", "two")] == [{"position": 7}, {"position": 9}]
    assert len(json.loads(path.read_text())) == 2


async def test_the_order_of_a_partitions_words_does_not_matter(tmp_path: Path) -> None:
    store = OffsetFile(tmp_path / "offsets")
    await store.put("one", {"": ({"a": 1, "b": 2}, {"position": 7})})
    assert store.get("one", {"b": 2, "a": 1}) == {"position": 7}


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(b"\xac\xed\x00\x05")
    with pytest.raises(OffsetFileError, match="cannot be read as a file of offsets"):
        OffsetFile(path)
