"""From what a fetch brought to Arrow record batches: at most one Python object per batch, none per record.

The decoder is the compiled one where numba is installed, else the plain one. The compiled code costs 0.5 s to import
and 0.35 s to load from its cache, once per process.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.pipeline.arrow_columns import record_batch
from penstock.pipeline.record_spans import AbortedFilter, LocatedBatch, chunks

try:
    from penstock.pipeline.decode_compiled import decode_chunk
except ImportError:  # no numba: quicker to start, much slower on every record
    from penstock.pipeline.decode_plain import decode_chunk


def decode(
    records: memoryview,
    batches: Sequence[LocatedBatch],
    topic: str,
    partition: int,
    first_offset: int,
    end_offset: int,
    *,
    aborted: AbortedFilter,
    include_headers: bool,
) -> Iterator[pa.RecordBatch]:
    """Record batches of about 4 MB with the rows in [first_offset, end_offset), in the order of their offsets."""
    for chunk in chunks(records, batches, first_offset, end_offset, aborted):
        decoded = decode_chunk(chunk, first_offset, end_offset, include_headers)
        if len(decoded.offset):
            yield record_batch(decoded, topic, partition)
