"""A batch that compaction writes anew has the same records, however long they and their times are."""

from random import Random

import pytest

from penstock.log.compaction.batches import _rewritten
from penstock.log.compaction.keys import Kept
from penstock.protocol.batch import HEADER_SIZE, check_crc, read_header
from penstock.protocol.records import Record, decode_batch, encode_batch

LENGTHS = (0, 1, 55, 63, 64, 65, 8_191, 8_192)
"""On both sides of where a length takes one byte more."""


@pytest.mark.parametrize("horizon_ms", [None, 0, 5_000, 1 << 40])
@pytest.mark.parametrize("seed", range(5))
def test_records_are_what_they_were(seed: int, horizon_ms: int | None) -> None:
    random = Random(seed)
    records = [
        Record(
            offset=number,
            timestamp_ms=4_000 + random.choice((0, 1, 63, 64, 8_192, 1 << 30)),
            key=b"k" * random.choice(LENGTHS),
            value=None if random.random() < 0.3 else b"v" * random.choice(LENGTHS),
            headers=[("h" * 70, b"x" * random.choice(LENGTHS))] * random.randrange(2),
        )
        for number in range(12)
    ]
    batch = bytes(encode_batch(records, producer_id=3, producer_epoch=1, base_sequence=7))
    header = read_header(batch)
    kept = Kept(batch[HEADER_SIZE:], len(records), True, header.max_timestamp)
    left = _rewritten(header, kept, horizon_ms)
    assert read_header(left.batch) == left.header._replace(crc=read_header(left.batch).crc)
    assert check_crc(left.batch, 0, read_header(left.batch))
    assert list(decode_batch(bytes(left.batch))) == records
    assert left.header.has_delete_horizon is (horizon_ms is not None)
    assert left.header.base_timestamp == (header.base_timestamp if horizon_ms is None else horizon_ms)
    assert (left.header.last_offset, left.header.last_sequence) == (header.last_offset, header.last_sequence)
