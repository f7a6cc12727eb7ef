"""Which records go into one batch when they are moved."""

from penstock.protocol.compression import Compression
from penstock.protocol.records import Record
from penstock.replication.delayed.machine import Mover
from penstock.replication.delayed.waiting import Entry

LARGE = Record(value=b"x" * 1_000)


def test_a_record_that_is_larger_than_a_batch_may_be_goes_alone() -> None:
    mover = Mover(most_bytes=100)
    assert mover.add(Entry(5, 0), LARGE, Compression.NONE)
    assert not mover.add(Entry(6, 1), Record(value=b"y"), Compression.NONE)
    assert mover.entries == [Entry(5, 0)]


def test_a_batch_has_one_codec() -> None:
    mover = Mover()
    assert mover.add(Entry(5, 0), LARGE, Compression.ZSTD)
    assert not mover.add(Entry(6, 1), LARGE, Compression.NONE)
    assert mover.add(Entry(7, 2), LARGE, Compression.ZSTD)
    assert mover.entries == [Entry(5, 0), Entry(7, 2)]
