"""A round of compaction in words: what is to be done, and what each step of it has done.

Who asks for a round needs no more than this; what does it (`cleaning`) is loaded where it is done.
"""

from penstock.log.compaction.planning import SegmentFacts
from penstock.protocol.value import Value


class Round(Value, kw_only=True):
    """What is to be done: the dirty part of the log is [`first_dirty`, `end_offset`), `segments` all below its end.

    The keys get `dedupe_bytes` of memory, of which the share `load_factor` is used; reads and writes `io_bytes`.
    """

    directory: str
    segments: tuple[SegmentFacts, ...]
    first_dirty: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_offsets: dict[int, int]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_unpacked_bytes: int
    dedupe_bytes: int
    load_factor: float
    io_bytes: int


class Moved(Value):
    """So many bytes were read or written."""

    count: int


class Cleaned(Value):
    """The segments that begin with these offsets can be replaced by a new one, which begins as the first of them."""

    base_offsets: tuple[int, ...]
    size: int


class Summary(Value, kw_only=True):
    """A round is over: the log is clean up to `end_offset`."""

    end_offset: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_written: int
    keyless: int
    keys: int
    capacity: int


Step = Moved | Cleaned | Summary
