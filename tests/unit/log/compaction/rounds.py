"""What the tests of compaction share: records in one line, a whole round, and what a reader finds afterwards."""

from collections.abc import Callable, Iterable

from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Cleaned, Summary
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from penstock.log.partition_log import PartitionLog
from penstock.node.serving.slices import at_once
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records

NOW = 1_700_000_000_000
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1000, index_interval_bytes=100, delete_retention_ms=1000
)

SUFFIXES = (LOG_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX)
Pair = tuple[str, str | None]


def pairs(
    *records: Pair,
    timestamp_ms: int = NOW,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] | None = None,
) -> memoryview:
    """A batch of (key, value), each record a millisecond after the one before."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return memoryview(
        encode_batch(
            [
                Record(0, timestamp_ms + number, key.encode(), None if value is None else value.encode(), [("h", b"x")])
                for number, (key, value) in enumerate(records)
            ],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def plain(work_bytes: int, load_factor: float) -> Keys:
    return PlainKeys(work_bytes, load_factor)


def compact(
    log: PartitionLog,
    disk: Disk,
    *,
    now_ms: int = NOW,
    stable_offset: int | None = None,
    buffers: Buffers | None = None,
    make_keys: Callable[[int, float], Keys] = plain,
) -> Summary:
    """One round over all that can be compacted."""
    found = look_at(log, log.log_end_offset if stable_offset is None else stable_offset, now_ms)
    work, segments = at_once(prepare(log, found, buffers or Buffers(), now_ms))
    by_base = {segment.base_offset: segment for segment in segments}
    for step in run_round(work, make_keys(work.dedupe_bytes, work.load_factor), disk):
        if isinstance(step, Cleaned):
            old = [by_base[base] for base in step.base_offsets]
            headers = [header for segment in old for _, header in segment.headers()] if step.gone else []
            assert {header.base_offset for header in headers if header.is_control}.issuperset(step.gone)
            assert log.swap_in(old, now_ms, step.gone)
        elif isinstance(step, Summary):
            log.cleaned_to = step.end_offset
            check_files(log, disk)
            return step
    raise AssertionError("a round ends with its summary")


def check_files(log: PartitionLog, disk: Disk) -> None:
    """What the log knows of its files is what is there."""
    names, content = disk.names(log.directory), log.load()
    there = {suffix: [int(name[:20]) for name in names if name.endswith(suffix)] for suffix in SUFFIXES}
    aborted = [one.last_offset for one in content.aborted.between(0, log.log_end_offset)]
    bases = content.segments.base_offsets
    assert (there[LOG_SUFFIX], there[SNAPSHOT_SUFFIX]) == (bases, content._snapshots.offsets)
    assert there[TRANSACTION_INDEX_SUFFIX] == sorted({bases[content.segments.number_of(end)] for end in aborted})
    assert log.size_bytes == sum(disk.file_size(segment.path) for segment in content.segments)


def batches(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches, by reading from the start to the end."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            break
        for position, header in iterate_batches(data):
            assert header.base_offset >= offset
            found.append((header, list(iterate_records(data, position, header))))
            offset = header.last_offset + 1
    return found


def records(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of all records."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for _, found in batches(log)
        for record in found
    ]


def last_values(found: Iterable[tuple[int, str, str | None]]) -> dict[str, str]:
    """What a table has that is built from the records, oldest first."""
    table: dict[str, str] = {}
    for _, key, value in found:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table
