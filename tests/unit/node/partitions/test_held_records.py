"""What is cut out of held batches, and is not delivered yet."""

from types import SimpleNamespace
from typing import Any, cast

from penstock.node.partitions.held_records import HeldRecords
from penstock.protocol.compression import Compression


def test_what_was_cut_out_is_forgotten_with_its_bytes_when_it_is_delivered() -> None:
    held = HeldRecords(cast("Any", SimpleNamespace(changes=0)), cast("Any", None))
    some = [cast("Any", SimpleNamespace(waited_at=at, body=bytes(10 + at))) for at in range(3)]
    held._cut = {due.waited_at: (due, Compression.NONE) for due in some[:2]}
    held._cut_bytes = 21
    held.are_delivered(some[1:])
    assert (list(held._cut), held._cut_bytes) == ([0], 10)
    held.are_delivered(some)
    assert (held._cut, held._cut_bytes) == ({}, 0)
