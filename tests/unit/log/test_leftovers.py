"""What a crash in the middle of a compaction's swap leaves, name by name."""

from itertools import product
from pathlib import Path

import pytest
from tests.unit.log.removed import remove_due

from penstock.log.disk import Disk
from penstock.log.leftovers import names_of_log
from penstock.log.names import offset_prefix
from penstock.log.removals import Removals
from penstock.protocol.records import Record, encode_batch

SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
STAYS = (".snapshot", ".txnindex")
"""Of the segment in whose place the new one comes."""


@pytest.mark.parametrize("records", [0, 1, 3, 4, 5, 7])
@pytest.mark.parametrize("in_one_batch", [True, False])
@pytest.mark.parametrize("with_indexes", list(product([False, True], repeat=2)))
def test_a_swap_is_finished_and_what_it_reaches_into_goes(
    tmp_path: Path, records: int, with_indexes: tuple[bool, bool], in_one_batch: bool
) -> None:
    """Segments begin with 0, 3, 6 and 9, and the new one with 3."""
    expected = dict[str, bytes]()
    for base in (0, 3, 6, 9):
        for suffix in SUFFIXES:
            path = tmp_path / f"{offset_prefix(base)}{suffix}"
            path.write_bytes(b"old")
            is_reached = 3 <= base < 3 + max(records, 1)
            if not is_reached or (base == 3 and suffix in STAYS):
                expected[path.name] = b"old"
    new = offset_prefix(3)
    counts = [records] if in_one_batch else [1] * records
    batches = [encode_batch([Record()] * count, base_offset=3 + at) for at, count in enumerate(counts) if count]
    content = b"".join(batches)
    (tmp_path / f"{new}.log.swap").write_bytes(content)
    expected[f"{new}.log"] = content
    for suffix, is_there in zip((".index", ".timeindex"), with_indexes, strict=True):
        if is_there:
            (tmp_path / f"{new}{suffix}.swap").write_bytes(b"new")
            expected[f"{new}{suffix}"] = b"new"
    for leftover in (f"{offset_prefix(0)}.log.deleted", f"{offset_prefix(12)}.log.cleaned", "a.tmp"):
        (tmp_path / leftover).touch()
    for other in ("partition.metadata", "leader-epoch-checkpoint"):
        (tmp_path / other).write_bytes(b"old")
        expected[other] = b"old"
    for _ in range(3):
        removals = Removals(Disk())
        assert names_of_log(Disk(), str(tmp_path), removals) == sorted(expected)
        left = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".deleted"}
        assert left == expected
        assert len(removals) == len(list(tmp_path.iterdir())) - len(left)
    assert len(removals) >= 2
    remove_due(removals, 0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == expected


def test_an_index_goes_that_has_no_segment(tmp_path: Path) -> None:
    whole = [f"{offset_prefix(7)}{suffix}" for suffix in SUFFIXES]
    orphans = [f"{offset_prefix(8)}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")]
    swapped = [f"{offset_prefix(7)}{suffix}.swap" for suffix in (".index", ".timeindex")]
    for name in (*whole, *orphans, *swapped, f"{offset_prefix(8)}.snapshot"):
        (tmp_path / name).touch()
    kept = sorted([*whole, f"{offset_prefix(8)}.snapshot"])
    assert names_of_log(Disk(), str(tmp_path), Removals(Disk())) == kept
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    assert names_of_log(Disk(), str(tmp_path / "nowhere"), Removals(Disk())) == []
