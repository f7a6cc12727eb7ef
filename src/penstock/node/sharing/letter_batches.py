"""Dead letters as a record batch, with copies of what the log has where those are wanted (KIP-1191)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.protocol import dead_letters as header
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.protocol.value import Value
from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.failures import Failures

MOST_UNPACKED: Final = 16 * 1024 * 1024
"""A batch that is larger when it is unpacked is not copied; once records take so much no further batch is read."""
OF_A_RECORD: Final = 32
OF_A_HEADER: Final = 8
"""Bytes beside the texts, at most."""


class Origin(Value):
    """Where the records come from; `clock_ms` is what must be added to the times of failures to have those of a day."""

    topic: str
    partition: int
    group_id: str
    clock_ms: int


class Letter(NamedTuple):
    offset: int
    about: DeadLetter


def records_in(data: bytes, wanted: Sequence[int]) -> tuple[dict[int, Record], int]:
    """Those of these offsets, which ascend, that can be read in whole batches of a log; and the last offset that was
    looked at: what is packed well may be very much when it is unpacked.
    """
    found: dict[int, Record] = {}
    size, last = 0, -1
    for position, it in iterate_batches(data):
        if size > MOST_UNPACKED:
            break
        last = it.last_offset
        some = frozenset(wanted[bisect_left(wanted, it.base_offset) : bisect_right(wanted, last)])
        if it.is_control or not some:
            continue
        try:
            for record in iterate_records(data, position, it, max_bytes=MOST_UNPACKED):
                if record.offset in some:
                    found[record.offset] = record
                    size += _size(record)
        except DecodeError:
            continue
    return found, last


def letter_batch(
    letters: Sequence[Letter],
    sources: Mapping[int, Record],
    origin: Origin,
    now_ms: int,
    max_bytes: int,
    *,
    may_repeat: bool,
) -> tuple[bytes, int]:
    """A batch of as many of the letters as it takes, one at least, and how many these are. A copy that does not fit in
    one batch with what is said of it is left out, and so is then what members said.
    """
    records: list[Record] = []
    left = most = max_bytes - HEADER_SIZE
    for letter in letters:
        source, failures = sources.get(letter.offset), letter.about.failures
        for copied, told in ((source, failures), (None, failures), (None, None)):
            record = _record(letter, copied, told, origin, now_ms, may_repeat)
            if _size(record) <= most:
                break
        left -= _size(record)
        if left < 0 and records:
            break
        records.append(record)
    return bytes(encode_batch(records)), len(records)


def _record(
    letter: Letter, source: Record | None, failures: Failures | None, origin: Origin, now_ms: int, may_repeat: bool
) -> Record:
    about = letter.about
    said = {
        header.TOPIC: origin.topic,
        header.PARTITION: str(origin.partition),
        header.OFFSET: str(letter.offset),
        header.GROUP: origin.group_id,
        header.DELIVERY_COUNT: str(about.delivery_count),
        header.MESSAGE: about.cause.value,
    }
    if failures is not None:
        if failures.last.reason:
            said[header.REASON] = failures.last.reason
        said[header.FIRST_FAILURE] = failures.first.text
        said[header.FIRST_FAILURE_AT] = str(failures.first.at_ms + origin.clock_ms)
    if may_repeat or about.may_repeat:
        said[header.MAY_REPEAT] = "true"
    headers: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in said.items()]
    if source is None:
        return Record(timestamp_ms=now_ms, headers=headers)
    own = header.own_headers(source.headers)
    return Record(timestamp_ms=now_ms, key=source.key, value=source.value, headers=own + headers)


def _size(record: Record) -> int:
    """A little more than it takes."""
    headers = sum(OF_A_HEADER + len(name.encode()) + len(value or b"") for name, value in record.headers)
    return OF_A_RECORD + len(record.key or b"") + len(record.value or b"") + headers
