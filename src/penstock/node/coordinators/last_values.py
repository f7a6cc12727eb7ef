"""The last value of each key in a log that is read from its beginning, at little cost for values that come again.

Consumers commit offsets again and again for the same partitions: the same keys in a batch of the same form, in which
nothing differs but the values. Of such a batch the form is kept. The next one is recognized by what lies around its
values, without a look at its header or its records, and its keys are looked at once, when all is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from penstock.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, LENGTH_END, MAGIC, BatchHeader
from penstock.protocol.records import keys_and_values, unpack_records
from penstock.protocol.varint import encode_varint

MOST_FIELDS: Final = 1_000_000
"""Records that all forms that are kept may have together; one that was seen once counts as one."""
KEY_AT: Final = 5
"""In the first record of a batch, if all numbers before it take one byte; its own length may take more."""
AT_ONCE: Final = 200
"""Pairs that are given at once: to apply them takes a millisecond or two."""
SORTED_AT_ONCE: Final = 1_000
"""Pairs that are sorted, or looked at, before others have their turn: it takes less than a millisecond."""

_PLACE: Final = Struct(">qi4xb4xhi30xi")
"""Of a header: base offset, length, magic, attributes, last offset delta, record count."""

_Name = tuple[int, int, bytes]
_Pairs = list[tuple[bytes | None, bytes | None]]
_Written = tuple[int, bytes, bytes | None]


class _Form:
    """Batches that differ in nothing but values: what lies around these is `fixed`. The last one's records are kept."""

    __slots__ = ("fixed", "frame", "keys", "number", "records", "values")

    def __init__(self, frame: Struct, values: Struct, keys: list[bytes], records: bytes) -> None:
        self.frame = frame
        self.fixed = b"".join(frame.unpack(records))
        self.values = values
        self.keys = keys
        self.records = records
        self.number = -1


class LastValues:
    """Takes the batches of a log, oldest first. Records without a key do not count."""

    def __init__(self) -> None:
        self._number = 0
        self._latest: dict[bytes, tuple[int, bytes | None]] = {}
        """When a key was written last, and its value."""
        self._forms = OrderedDict[_Name, _Form | None]()
        """The oldest first. None for a form that was seen once."""
        self._fields = 0
        """What these have together."""
        self._pending: list[tuple[int, int, bytes, bytes]] = []
        """Values of open transactions: when they were written, by which producer, for which key."""

    def take_pending(self, data: bytes, position: int, header: BatchHeader) -> None:
        """A batch of a transaction that has not ended. Raises DecodeError."""
        for key, value in keys_and_values(unpack_records(data, position, header), header):
            if key is not None and value is not None:
                self._pending.append((self._number, header.producer_id, key, value))

    def pending(self) -> Iterator[tuple[int, bytes, bytes, bool]]:
        """By which producer, the key, the value, and whether the key has a value that was written later: to be asked
        when all is given that is `in_order`.
        """
        for number, producer_id, key, value in self._pending:
            latest = self._latest.get(key)
            yield producer_id, key, value, latest is not None and latest[0] >= number

    def take_again(self, data: bytes, position: int, behind: int) -> tuple[int, int]:
        """Take the batches from `position` on that have known forms: where the first other one lies, or one that is cut
        off, compressed, a marker or of a transaction; and the offset behind those that were taken, else `behind`.
        """
        size = len(data)
        while size - position >= HEADER_SIZE:
            base_offset, length, magic, attributes, delta, count = _PLACE.unpack_from(data, position)
            end = position + LENGTH_END + length
            if end > size or magic != MAGIC or attributes:
                break
            begin = position + HEADER_SIZE
            if not self._comes_again(_name_of(data, begin, end, count), data, begin, end):
                break
            position, behind = end, base_offset + delta + 1
        return position, behind

    def take(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Raises DecodeError."""
        begin, end = position + HEADER_SIZE, position + header.size_in_bytes
        if header.attributes & COMPRESSION_MASK:
            data = unpack_records(data, position, header)
            begin, end = 0, len(data)
        name = _name_of(data, begin, end, header.record_count)
        if self._comes_again(name, data, begin, end):
            return
        records = data[begin:end]
        found = keys_and_values(records, header)
        for at, (key, value) in enumerate(found, self._number):
            if key is not None:
                self._latest[key] = at, value
        self._number += header.record_count
        self._keep(name, _form_of(records, found) if name in self._forms else None)

    def _comes_again(self, name: _Name, data: bytes, begin: int, end: int) -> bool:
        form = self._forms.get(name)
        if form is None or b"".join(form.frame.unpack_from(data, begin)) != form.fixed:
            return False
        form.records, form.number = data[begin:end], self._number
        self._number += name[1]
        return True

    def _keep(self, name: _Name, form: _Form | None) -> None:
        """In place of the oldest ones, if there are too many."""
        self._forget(name)
        self._forms[name] = form
        self._fields += _size_of(form)
        while self._fields > MOST_FIELDS:
            self._forget(next(iter(self._forms)))

    def _forget(self, name: _Name) -> None:
        if name in self._forms:
            form = self._forms.pop(name)
            self._fields -= _size_of(form)
            self._enter(form)

    def _settling(self) -> Iterator[None]:
        """Forget the forms, and enter what came in them, in steps."""
        entered = 0
        while self._forms:
            _, form = self._forms.popitem()
            self._enter(form)
            entered += _size_of(form)
            if entered >= SORTED_AT_ONCE:
                entered = 0
                yield
        self._fields = 0

    def _enter(self, form: _Form | None) -> None:
        """Note what came last in a form that is forgotten, where nothing came later."""
        if form is None or form.number < 0:
            return
        values = form.values.unpack(form.records)
        for number, (key, value) in enumerate(zip(form.keys, values, strict=True), form.number):
            known = self._latest.get(key)
            if known is None or known[0] < number:
                self._latest[key] = number, value

    def in_order(self) -> Iterator[list[tuple[bytes, bytes | None]]]:
        """Keys and values in the order in which they were written last, some at a time, or none yet: others may have
        their turn in between.
        """
        for _ in self._settling():
            yield []
        written = ((number, key, value) for key, (number, value) in self._latest.items())
        yield from _in_order(written, len(self._latest), range(self._number))


def _name_of(data: bytes, begin: int, end: int, count: int) -> _Name:
    """How many bytes and records there are, and what comes first, up to the end of the first key: that nearly all
    batches of one name are of one form.
    """
    key_at = begin + KEY_AT
    while key_at < min(end, begin + 2 * KEY_AT) and data[key_at - KEY_AT] > 0x7F:
        key_at += 1
    return end - begin, count, data[begin : key_at + (data[key_at - 1] >> 1) if key_at <= end else end]


def _size_of(form: _Form | None) -> int:
    return 1 if form is None else len(form.keys)


def _form_of(records: bytes, found: _Pairs) -> _Form | None:
    """None if there are not all keys and values, or they do not lie where they should."""
    pairs = [(key, value) for key, value in found if key is not None and value is not None]
    if len(pairs) < len(found):
        return None
    frame, values, at = [], [], 0
    for key, value in pairs:
        value_at = records.index(key, at) + len(key) + len(encode_varint(len(value)))
        frame.append(f"{value_at - at}s{len(value)}x")
        values.append(f"{value_at - at}x{len(value)}s")
        at = value_at + len(value)
    rest = len(records) - at
    taken = Struct(f"{''.join(values)}{rest}x")
    if taken.unpack(records) != tuple(value for _, value in pairs):
        return None
    return _Form(Struct(f"{''.join(frame)}{rest}s"), taken, [key for key, _ in pairs], records)


def _in_order(written: Iterable[_Written], count: int, numbers: range) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """By their numbers, which are among these. To sort very many at once would take long."""
    if count <= SORTED_AT_ONCE:
        pairs = [(key, value) for _, key, value in sorted(written)]
        for begin in range(0, count, AT_ONCE):
            yield pairs[begin : begin + AT_ONCE]
        return
    parts = [list[_Written]() for _ in range(count // AT_ONCE + 1)]
    width = len(numbers) // len(parts) + 1
    for place, one in enumerate(written):
        parts[(one[0] - numbers.start) // width].append(one)
        if place % SORTED_AT_ONCE == 0:
            yield []
    for number, part in enumerate(parts):
        yield from _in_order(part, len(part), numbers[number * width : (number + 1) * width])
