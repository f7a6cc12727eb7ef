"""A round of compaction in words: what is to be done, and what each step of it has done.

Nodes that ask for a round load only this; `cleaning`, which does it, is loaded in its process.
"""

from penstock.log.aborted_transactions import AbortedTransaction
from penstock.log.compaction.planning import SegmentFacts
from penstock.protocol.value import Value


class Round(Value, kw_only=True):
    """The dirty part of the log is [`first_dirty`, `end_offset`), `segments` all below its end. Of `dedupe_bytes`, the
    memory for keys, the share `load_factor` is used. Of active producers it names the last offset; of those that have
    written nothing in their epoch, the epoch, which a marker has.
    """

    directory: str
    segments: tuple[SegmentFacts, ...]
    first_dirty: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_offsets: dict[int, int]
    marker_epochs: dict[int, int]
    aborted: tuple[AbortedTransaction, ...]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_unpacked_bytes: int
    dedupe_bytes: int
    load_factor: float
    io_bytes: int


class Moved(Value):
    count: int


class Cleaned(Value):
    """A new segment can replace those that begin with these offsets; it begins as the first of them. The markers at the
    offsets `gone` are in it no more.
    """

    base_offsets: tuple[int, ...]
    size: int
    gone: tuple[int, ...] = ()


class Summary(Value, kw_only=True):
    """The log is clean up to `end_offset`."""

    end_offset: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_written: int
    keys: int
    capacity: int


Step = Moved | Cleaned | Summary
