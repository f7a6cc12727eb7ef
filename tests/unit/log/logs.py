"""What the tests of the log share: batches made in one line, and logs in a temporary directory."""

from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.lookup import Search, TimestampOffset, Work
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.log.validation import AppendOrigin
from penstock.protocol.batch import read_header
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, decode_batch, encode_batch

NOW = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    timestamp_ms: int = NOW,
    key: bytes | None = b"k",
    value: bytes = b"value",
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] | None = None,
) -> memoryview:
    """A batch as a client sends it; `producer` is (producer id, epoch, base sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    records = [Record(i, timestamp_ms, key, value) for i in range(count)]
    return memoryview(
        encode_batch(
            records, compression=compression, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
    )


def open_log(
    path: Path,
    config: LogConfig | None = None,
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    disk: Disk | None = None,
    max_open: int = 100,
) -> PartitionLog:
    """The log of partition t-0 under a directory."""
    directory = path / "t-0"
    directory.mkdir(exist_ok=True)
    disk = disk or Disk()
    return PartitionLog(
        OpenFiles(disk, max_open),
        Removals(disk),
        str(directory),
        "t",
        0,
        config or LogConfig(),
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def append(log: PartitionLog, batches: memoryview, *, epoch: int = 0, now_ms: int = NOW) -> int:
    """Append as a client would; the base offset."""
    return log.append_as_leader(batches, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.CLIENT).base_offset


def batches_of(data: bytes) -> list[tuple[int, int]]:
    """(base offset, last offset) of each whole batch."""
    found = []
    position = 0
    while len(data) - position >= 61:
        header = read_header(data, position)
        position += header.size_in_bytes
        if position <= len(data):
            found.append((header.base_offset, header.last_offset))
    return found


def all_batches(log: PartitionLog) -> list[tuple[int, int]]:
    """(base offset, last offset) of each batch of a log, by reading it from start to end."""
    found: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found += batches_of(log.read(offset, 1 << 20).read())
        offset = found[-1][1] + 1
    return found


def values(data: bytes) -> list[bytes | None]:
    """The values of the records of one batch."""
    return [record.value for record in decode_batch(data)]


def run_through(search: Search) -> TimestampOffset | None:
    """The result of a search by time, whatever it takes."""
    work: Work | None = None
    try:
        while True:
            work = next(search) if work is None else search.send(work())
    except StopIteration as stop:
        found: TimestampOffset | None = stop.value
        return found
