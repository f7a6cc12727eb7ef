"""One round of compaction over the files of a log: its keys are read, then its segments are written anew.

What comes out lies beside the log as `*.cleaned`, durable, and changes nothing until the node swaps it in. A round is a
generator, so that its caller decides on its pace, and may leave it at any step: in the process of the node or in
another one, on a real disk or on a simulated one. No step takes more than some `log.cleaner.io.buffer.size`.
"""

from collections.abc import Generator, Iterator

from penstock.log.compaction.batches import Filtered, Terms, UncleanableError, filter_batch, unpacked
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.planning import SegmentFacts, groups
from penstock.log.compaction.rounds import Cleaned, Moved, Round, Step, Summary
from penstock.log.compaction.transactions import Transactions
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_SUFFIX, LOG_SUFFIX, offset_prefix
from penstock.log.open_files import OpenFiles
from penstock.log.segment import Segment
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.records import iterate_batches

MIN_BUFFER_BYTES = 4096


class CleanedSegment(Segment):
    """It is not part of its log yet."""

    __slots__ = ()

    def path_of(self, suffix: str) -> str:
        return super().path_of(suffix) + CLEANED_SUFFIX


class _Counts:
    def __init__(self) -> None:
        self.bytes_read = self.bytes_written = self.records_read = self.records_written = 0


def run_round(work: Round, keys: Keys, disk: Disk) -> Iterator[Step]:
    """The last step is the Summary. Raises OSError; DecodeError or KafkaError(CORRUPT_MESSAGE) for a log that cannot be
    compacted.
    """
    counts, transactions = _Counts(), Transactions(work.aborted)
    latest_offset = yield from _read_keys(work, keys, transactions, disk)
    end_offset = latest_offset + 1
    concerned = [segment for segment in work.segments if segment.base_offset < end_offset]
    ends = [segment.base_offset for segment in work.segments[: len(concerned) + 1]] + [work.end_offset]
    done = 0
    for group in groups(
        concerned, work.end_offset, segment_bytes=work.segment_bytes, index_bytes=work.segment_index_bytes
    ):
        done += len(group)
        terms = Terms(
            now_ms=work.now_ms,
            delete_retention_ms=work.delete_retention_ms,
            latest_offset=latest_offset,
            end_offset=ends[done],
            last_offsets=work.last_offsets,
            marker_epochs=work.marker_epochs,
            max_unpacked_bytes=work.max_unpacked_bytes,
        )
        yield from _write_group(work, group, keys, transactions, terms, disk, counts)
    yield Summary(
        end_offset=end_offset,
        bytes_read=counts.bytes_read,
        bytes_written=counts.bytes_written,
        records_read=counts.records_read,
        records_written=counts.records_written,
        keys=len(keys),
        capacity=keys.capacity,
    )


def _read_keys(work: Round, keys: Keys, transactions: Transactions, disk: Disk) -> Generator[Step, None, int]:
    """Returns the offset up to which all keys of the dirty part are known."""
    latest_offset = work.first_dirty - 1
    for number, segment in enumerate(work.segments):
        is_last = number + 1 == len(work.segments)
        next_offset = work.end_offset if is_last else work.segments[number + 1].base_offset
        if next_offset <= work.first_dirty:
            continue
        for batch, header in _batches(work, segment, disk):
            if header is None:
                yield Moved(len(batch))
                continue
            if header.last_offset < work.first_dirty:
                continue
            if not header.is_control and not transactions.is_aborted(header):
                data = unpacked(batch, header, work.max_unpacked_bytes)
                if not keys.index(data, header, work.first_dirty):
                    if latest_offset < work.first_dirty:
                        raise UncleanableError(
                            f"a batch of {header.record_count} records at offset {header.base_offset} has more keys"
                            f" than log.cleaner.dedupe.buffer.size has room for, {keys.capacity}"
                        )
                    return latest_offset
            latest_offset = header.last_offset
        latest_offset = next_offset - 1
    return latest_offset


def _path_of(work: Round, segment: SegmentFacts) -> str:
    return f"{work.directory}/{offset_prefix(segment.base_offset)}{LOG_SUFFIX}"


def _batches(work: Round, segment: SegmentFacts, disk: Disk) -> Iterator[tuple[memoryview, BatchHeader | None]]:
    """Steps without a header tell how many bytes were read."""
    file = disk.open_for_reading(_path_of(work, segment))
    position, wanted = 0, max(work.io_bytes, MIN_BUFFER_BYTES)
    while position < segment.size:
        asked = min(wanted, segment.size - position)
        chunk = memoryview(file.read_at(asked, position))
        done = 0
        for at, header in iterate_batches(chunk):
            done = at + header.size_in_bytes
            yield chunk[at:done], header
        if done:
            yield chunk[:done], None
            position += done
            wanted = max(work.io_bytes, MIN_BUFFER_BYTES)
        else:
            wanted = _size_of_first(chunk, asked, segment, position)


def _size_of_first(chunk: memoryview, asked: int, segment: SegmentFacts, position: int) -> int:
    """How much to read for a batch that is larger than what was asked for; the file may end before."""
    size = read_header(chunk).size_in_bytes
    if not asked < size <= segment.size - position:
        raise UncleanableError(
            f"no whole batch at position {position} of the segment {offset_prefix(segment.base_offset)}"
        )
    return size


def _write_group(
    work: Round,
    group: list[SegmentFacts],
    keys: Keys,
    transactions: Transactions,
    terms: Terms,
    disk: Disk,
    counts: _Counts,
) -> Iterator[Step]:
    gone: list[int] = []
    out = _Output(CleanedSegment(OpenFiles(disk, 1), work.directory, group[0].base_offset), work, disk)
    for segment in group:
        for batch, header in _batches(work, segment, disk):
            if header is None:
                counts.bytes_read += len(batch)
                yield Moved(len(batch) + out.flush())
                continue
            left = filter_batch(batch, header, keys, transactions, terms)
            if header.is_control and not left.kept:
                gone.append(header.base_offset)
            counts.records_read += header.record_count
            counts.records_written += left.kept
            if left.batch:
                out.add(left)
    out.close(modified_ms=disk.modified_ms(_path_of(work, group[-1])))
    counts.bytes_written += out.segment.size
    yield Cleaned(tuple(segment.base_offset for segment in group), out.segment.size, tuple(gone))


class _Output:
    """Writes of a new segment, gathered until they are worth a call."""

    def __init__(self, segment: Segment, work: Round, disk: Disk) -> None:
        self.segment = segment
        self._disk = disk
        segment.create()
        self._interval = work.index_interval_bytes
        self._pending: list[Filtered] = []

    def add(self, left: Filtered) -> None:
        self._pending.append(left)

    def flush(self) -> int:
        pending, self._pending = self._pending, []
        if not pending:
            return 0
        data = b"".join([left.batch for left in pending])
        self.segment.write(data)
        for left in pending:
            header = left.header
            self.segment.note_batch(
                header.base_offset, header.last_offset, header.size_in_bytes, header.max_timestamp, self._interval
            )
        return len(data)

    def close(self, *, modified_ms: int) -> None:
        """Durable. Retention goes by `modified_ms`, the time of the last records, where none has a time."""
        self.flush()
        self._disk.set_modified_ms(self.segment.path, modified_ms)
        self.segment.opened().sync()
        self.segment.save_indexes(is_final=True, durable=True)
        self.segment.forget_file()
