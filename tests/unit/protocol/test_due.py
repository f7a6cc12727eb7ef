"""What is cut out of held batches, against the records as they are read otherwise."""

from contextlib import suppress
from random import Random

from penstock.protocol.batch import read_header
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import DELAY_ID, NO_ID, WAITED_AT, hash_of
from penstock.protocol.due import Moved, cut, moved_batch, moved_in, spans
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch, iterate_records, unpack_records

NOW_MS = 1_700_000_000_000
LENGTHS = (0, 1, 60, 63, 64, 65, 130, 9_000)
"""Around those whose numbers take one byte, two, and three."""


def drawn(random: Random) -> list[Record]:
    def blob() -> bytes | None:
        return None if random.random() < 0.2 else bytes(random.choice(LENGTHS))

    def headers() -> list[tuple[str, bytes | None]]:
        count = random.choice((0, 0, 1, 2, 62, 63, 64))
        return [
            (random.choice(("h", DELAY_ID, "n" * 70)), random.choice((None, b"", b"one", b"x" * 64)))
            for _ in range(count)
        ]

    return [
        Record(0, NOW_MS + random.choice((0, 63, 64, 1 << 40)), blob(), blob(), headers())
        for _ in range(random.choice((1, 2, 70)))
    ]


def id_of(record: Record) -> int:
    ids = [value for name, value in record.headers if name == DELAY_ID and value is not None]
    return hash_of(ids[-1]) if ids else NO_ID


def test_records_are_moved_as_they_were_with_where_they_waited() -> None:
    for seed in range(20):
        random = Random(seed)
        records, first = drawn(random), random.choice((0, 99, 1 << 40))
        data = unpack_records(batch := encode_batch(records), 0, header := read_header(batch))
        found = [cut(data, span, at) for at, span in enumerate(spans(data, header.record_count), first)]
        moved = moved_batch(found, Compression.NONE, now_ms=NOW_MS)
        read = list(iterate_records(moved, 0, read_header(moved)))
        assert [(it.key, it.value, it.headers) for it in read] == [
            (it.key, it.value, [*it.headers, (WAITED_AT, b"%d" % at)]) for at, it in enumerate(records, first)
        ], seed
        assert [(it.offset, it.timestamp_ms) for it in read] == [(at, NOW_MS) for at in range(len(records))]
        said = [Moved(at, id_of(it)) for at, it in enumerate(records, first)]
        assert [Moved(it.waited_at, it.id) for it in found] == list(moved_in(moved, read_header(moved))) == said


def test_bytes_that_are_bent_or_cut_are_told_as_such() -> None:
    """Who delivers tries again, and says why; anything else would end the delivery."""
    batch = encode_batch(
        [Record(0, NOW_MS, b"k", b"v", [("h", b"x"), (DELAY_ID, b"one")]), Record(0, NOW_MS, b"l", None)]
    )
    data = unpack_records(batch, 0, read_header(batch))
    bent = [data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :] for at in range(len(data)) for bit in range(8)]
    for one in [*bent, *(data[:end] for end in range(len(data))), data + b"\0"]:
        with suppress(DecodeError):
            for span in spans(one, 2):
                cut(one, span, 0)
