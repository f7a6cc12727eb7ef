"""Which records go into one batch when they are moved."""

import pytest

from penstock.protocol.batch import read_header
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import NO_ID
from penstock.protocol.due import Due
from penstock.replication.delayed.machine import Mover


def due(waited_at: int, size: int) -> Due:
    return Due(waited_at, b"x" * size, NO_ID)


def test_a_record_that_is_larger_than_a_batch_may_be_goes_alone() -> None:
    mover = Mover(most_bytes=100)
    assert mover.add(due(0, 1_000), Compression.NONE)
    assert not mover.add(due(1, 1), Compression.NONE)
    assert [it.waited_at for it in mover.chosen] == [0]


def test_a_batch_has_one_codec() -> None:
    mover = Mover()
    assert mover.add(due(0, 1_000), Compression.ZSTD)
    assert not mover.add(due(1, 1_000), Compression.NONE)
    assert mover.add(due(2, 1_000), Compression.ZSTD)
    assert [it.waited_at for it in mover.chosen] == [0, 2]


def test_a_batch_has_a_hundred_records_and_a_quarter_of_a_mebibyte_at_most() -> None:
    """And no more than a log lets it have."""
    mover = Mover()
    assert [mover.add(due(at, 1), Compression.NONE) for at in range(101)] == [True] * 100 + [False]
    for most, room in ((1 << 30, 256 << 10), (1_000, 1_000)):
        mover = Mover(most)
        assert mover.add(due(0, room - 10), Compression.NONE)
        assert not mover.add(due(1, 11), Compression.NONE)
        assert mover.add(due(2, 9), Compression.NONE)
        assert mover.add(due(3, 1), Compression.NONE)
        assert not mover.add(due(4, 1), Compression.NONE)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_what_is_moved_is_one_batch_of_the_codec_that_its_records_had(compression: Compression) -> None:
    mover = Mover()
    for at in (7, 9):
        mover.add(due(at, 0), compression)
    batch = mover.moved(1_000)
    header = read_header(batch)
    assert (header.last_offset_delta, header.attributes & 7, header.max_timestamp) == (1, compression, 1_000)
