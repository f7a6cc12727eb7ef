"""A snapshot of the machine: its pieces in a file of Kafka's layout, which begins with the voters (KIP-630, KIP-853).

So `penstock dump-log` can show it.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.protocol.control.snapshot_file import batches_of_snapshot, encode_snapshot_file
from penstock.protocol.records import Record, iterate_records
from penstock.raft.control import snapshot_header_records
from penstock.raft.voters import Quorum

BATCH_BYTES = 256 * 1024
"""A batch is ended when its keys and values are more than this."""


def encode_snapshot(
    records: Iterable[Record], quorum: Quorum, *, epoch: int, last_timestamp_ms: int, now_ms: int
) -> Iterator[bytes]:
    """The file, batch by batch; `epoch` and `last_timestamp_ms` are those of the last record that it contains."""
    header = snapshot_header_records(quorum, last_timestamp_ms, now_ms)
    return encode_snapshot_file(header, _in_batches(records), epoch=epoch, now_ms=now_ms)


def decode_snapshot(content: bytes) -> Iterator[Record]:
    """The machine's pieces in a snapshot. Raises DecodeError if it is damaged or has no end."""
    for position, header in batches_of_snapshot(content):
        yield from iterate_records(content, position, header)


def _in_batches(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
