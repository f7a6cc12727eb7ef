"""One segment: a `.log` file of whole batches with its two indexes.

The segment knows positions, sizes and timestamps; it does not check batches. `append` writes first and remembers
then, so that a failed write leaves the segment as it was; `note_batch` is called once for each batch that was
written.
"""

from collections.abc import Iterator

from penstock.log.disk import OpenFile
from penstock.log.entry_file import CorruptIndexError
from penstock.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_prefix,
)
from penstock.log.offset_index import OffsetIndex
from penstock.log.open_files import OpenFiles
from penstock.log.scan import batch_headers, batch_spans
from penstock.log.time_index import NO_TIMESTAMP, TimeIndex
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode, KafkaError

MAX_RELATIVE_OFFSET = (1 << 31) - 1
READ_ENDS = 4
"""A few followers and consumers read the same records, and go on at the same ends."""
REBUILT_INDEX_INTERVAL_BYTES = 4096
"""The density of an index that had to be rebuilt outside recovery: Kafka's default, whatever the topic says."""


class Segment:
    """`file` is None while its descriptor is closed (see `open_files`)."""

    recently_used: bool
    """Of an open file."""

    __slots__ = (
        "_indexes",
        "_open_files",
        "_read_ends",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "has_torn_tail",
        "lacks_index",
        "last_batch_offset",
        "last_batch_position",
        "last_offset",
        "max_timestamp",
        "max_timestamp_offset",
        "recently_used",
        "size",
    )

    def __init__(self, open_files: OpenFiles, directory: str, base_offset: int, size: int = 0) -> None:
        self._open_files = open_files
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.file: OpenFile | None = None
        self.has_torn_tail = False
        self.lacks_index = False
        self.bytes_since_index_entry = 0
        self.created_ms: int | None = None
        self.first_timestamp: int | None = None
        self.max_timestamp: int = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.last_batch_offset = base_offset
        self.last_batch_position = 0
        self.last_offset = base_offset - 1
        self._read_ends: dict[int, int] | None = None
        """Where readers that had read everything will go on: offset to position, the latest few."""

    # names

    @property
    def path(self) -> str:
        return self.path_of(LOG_SUFFIX)

    def path_of(self, suffix: str) -> str:
        return f"{self.directory}/{offset_prefix(self.base_offset)}{suffix}"

    def index_paths(self) -> list[str]:
        return [self.path_of(INDEX_SUFFIX), self.path_of(TIME_INDEX_SUFFIX)]

    def paths(self) -> list[str]:
        beside = (SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [self.path, *self.index_paths(), *map(self.path_of, beside)]

    # files

    def opened(self) -> OpenFile:
        """Readers that keep the file can go on even when the segment is deleted."""
        self.recently_used = True
        return self.file or self._open_files.open(self)

    def create(self) -> None:
        """No old index may stay beside the new file."""
        for path in self.index_paths():
            self._open_files.disk.remove(path)
        file = self._open_files.open(self, create=True)
        if file.size():
            file.truncate(0)  # of an empty file ext4 would remember it, and write out at its close whatever it has then
        disk = self._open_files.disk
        self._indexes = (
            OffsetIndex(disk, self.path_of(INDEX_SUFFIX), self.base_offset),
            TimeIndex(disk, self.path_of(TIME_INDEX_SUFFIX), self.base_offset),
        )

    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """They are read or rebuilt at first use."""
        if self._indexes is None:
            disk = self._open_files.disk
            offsets = OffsetIndex(disk, self.path_of(INDEX_SUFFIX), self.base_offset)
            times = TimeIndex(disk, self.path_of(TIME_INDEX_SUFFIX), self.base_offset)
            self._indexes = offsets, times
            try:
                if self.lacks_index:
                    raise CorruptIndexError(f"{self.path} has no index")
                offsets.load(self.size)
                times.load()
            except CorruptIndexError:
                self.rebuild_indexes(REBUILT_INDEX_INTERVAL_BYTES)
            else:
                self.max_timestamp, self.max_timestamp_offset = times.last_timestamp, times.last_offset
        return self._indexes

    def rebuild_indexes(self, index_interval_bytes: int) -> None:
        """From the batches, whatever the files held."""
        headers = list(self.headers())
        self.restart_indexes()
        size, self.size = self.size, 0
        for _, header in headers:
            self.note_batch(
                header.base_offset, header.last_offset, header.size_in_bytes, header.max_timestamp, index_interval_bytes
            )
        assert self.size == size
        self.save_indexes(is_final=True)

    def restart_indexes(self) -> None:
        disk = self._open_files.disk
        offsets = OffsetIndex(disk, self.path_of(INDEX_SUFFIX), self.base_offset)
        times = TimeIndex(disk, self.path_of(TIME_INDEX_SUFFIX), self.base_offset)
        for entries in (offsets.entries, times.entries):
            entries.reset()
        self._indexes = offsets, times
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = None
        self.bytes_since_index_entry = 0
        self._forget_last_batch()

    def save_indexes(self, *, is_final: bool = False, durable: bool = False) -> None:
        """`is_final` adds the time entry of a closed segment and makes empty index files, as Kafka misses them."""
        if self._indexes is None or not (self.size or is_final):
            return
        offsets, times = self._indexes
        if is_final:
            times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        for entries in (offsets.entries, times.entries):
            entries.save(durable=durable, create=is_final)

    def flush(self) -> None:
        """The batches outlive a power cut."""
        if self.size:
            self.opened().sync()

    def forget_file(self) -> None:
        """Nothing is saved."""
        self._open_files.close(self)

    # writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """All of them in one write. After an OSError the segment is as it was."""
        self.recently_used = True
        file = self.file or self._open_files.open(self)
        if self.has_torn_tail:
            file.truncate(self.size)
            self.has_torn_tail = False
        try:
            file.write_at(data, self.size)
        except OSError:
            self.has_torn_tail = True
            file.truncate(self.size)
            self.has_torn_tail = False
            raise

    def note_batch(
        self, base_offset: int, last_offset: int, size: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """The batch lies at the end of the file: indexes and sums are extended."""
        position = self.size
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > index_interval_bytes:
            offsets, times = self.indexes()
            offsets.append(last_offset, position)
            times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size
        self.last_batch_offset = base_offset
        self.last_batch_position = position
        self.last_offset = last_offset
        self.size = position + size

    # reading

    def locate(self, offset: int) -> tuple[int, int, int, int] | None:
        """(position, size, base offset, last offset) of the first batch that ends at `offset` or behind it."""
        if self.last_batch_offset <= offset <= self.last_offset:
            position = self.last_batch_position
            return position, self.size - position, self.last_batch_offset, self.last_offset
        position = self.indexes()[0].position_before(offset)
        for span in batch_spans(self.opened(), position, self.size):
            if span[3] >= offset:
                return span
        return None

    def position_to_go_on(self, offset: int) -> int:
        """-1 unless a reader stopped at `offset`."""
        ends = self._read_ends
        return -1 if ends is None else ends.get(offset, -1)

    def note_read_to_end(self) -> None:
        """The reader will ask for the next records."""
        ends = self._read_ends
        if ends is None:
            ends = self._read_ends = {}
        elif len(ends) >= READ_ENDS and self.last_offset + 1 not in ends:
            del ends[next(iter(ends))]
        ends[self.last_offset + 1] = self.size

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a position on, which must be a batch's."""
        return batch_headers(self.opened(), position, self.size)

    def headers_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch that ends at `offset` or behind it."""
        found = self.locate(offset)
        return self.headers(found[0]) if found else iter(())

    def largest_timestamp(self) -> int:
        """-1 if no batch has a timestamp."""
        self.indexes()
        return self.max_timestamp

    def retention_timestamp(self) -> int:
        """The latest timestamp or, where no batch has one, when the file was last written."""
        latest = self.largest_timestamp()
        return latest if latest > NO_TIMESTAMP else self._open_files.disk.modified_ms(self.path)

    def rolling_timestamp(self) -> int:
        """The first batch's timestamp, from which the age of a segment counts; -1 if it has none."""
        if self.first_timestamp is None and self.size:
            self.first_timestamp = next(self.headers())[1].max_timestamp
        return NO_TIMESTAMP if self.first_timestamp is None else self.first_timestamp

    # cutting

    def truncate_to(self, offset: int) -> int | None:
        """Keep the batches that end before `offset`; returns the new end offset, None if nothing was cut."""
        found = self.locate(offset)
        if found is None:
            self._forget_last_batch()
            self.adopt_tail()  # it may have been sealed until now
            return None
        position = found[0]
        offsets, times = self.indexes()
        self.opened().truncate(position)
        offsets.truncate_to(position)
        times.truncate_to(offset)
        self.size = position
        self.max_timestamp = times.last_timestamp
        self.max_timestamp_offset = times.last_offset
        self._forget_last_batch()
        if position == 0:
            self.first_timestamp = None
            self.bytes_since_index_entry = 0
            return self.base_offset
        return self.adopt_tail()

    def adopt_tail(self) -> int:
        """Returns the end offset of a closed segment, whose tail lies behind the last index entry. KafkaError
        CORRUPT_MESSAGE and DecodeError for nonsense, and where the end of the last batch is missing.
        """
        last = self.indexes()[0].entries.last()
        self.bytes_since_index_entry = end = 0
        for position, header in self.headers(last[1] if last else 0):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            self.bytes_since_index_entry += header.size_in_bytes
            self.last_batch_offset, self.last_batch_position = header.base_offset, position
            self.last_offset = header.last_offset
            end = position + header.size_in_bytes
        if end != self.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} ends within a batch")
        return self.last_offset + 1

    def _forget_last_batch(self) -> None:
        self._read_ends = None
        self.last_batch_offset = self.base_offset
        self.last_batch_position = 0
        self.last_offset = self.base_offset - 1
