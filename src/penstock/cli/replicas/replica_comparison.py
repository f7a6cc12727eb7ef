"""Whether the replicas of a partition hold the same batches: what `penstock replica-verification` finds out.

Each round has what every replica gave from one offset on. Batches are compared one after the other, by where they end
and by their checksums, as far as all replicas gave them and below what each knows to be committed.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from penstock.client.values import TopicPartition
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_batches
from penstock.protocol.value import Value


class Given(Value):
    records: bytes
    high_watermark: int


class Compared(Value):
    next_offset: int
    differences: tuple[str, ...] = ()
    is_apart: bool = False


def compare(partition: TopicPartition, offset: int, given: Mapping[int, Given]) -> Compared:
    differences: list[str] = []
    nodes = sorted(given)
    for row in zip(*(_committed(given[node]) for node in nodes), strict=False):
        first = row[0]
        for node, header in zip(nodes[1:], row[1:], strict=True):
            if header.last_offset != first.last_offset:
                differences.append(
                    f"partition {partition}: replica {nodes[0]}'s offset {first.last_offset} doesn't match replica "
                    f"{node}'s offset {header.last_offset}"
                )
                return Compared(offset, tuple(differences), is_apart=True)
            if header.crc != first.crc:
                differences.append(
                    f"partition {partition} has unmatched checksum at offset {first.last_offset}; replica "
                    f"{nodes[0]}'s checksum {first.crc}; replica {node}'s checksum {header.crc}"
                )
        offset = first.last_offset + 1
    return Compared(offset, tuple(differences))


def max_lag(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> tuple[int, TopicPartition]:
    """The most committed records that are not compared yet, and their partition."""
    return max((end - offsets[partition], partition) for partition, end in ends.items())


def _committed(given: Given) -> Iterator[BatchHeader]:
    with suppress(DecodeError):
        for _, header in iterate_batches(given.records):
            if header.last_offset >= given.high_watermark:
                return
            yield header
