"""Which records go into one batch when they are moved."""

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
