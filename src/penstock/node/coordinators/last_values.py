"""The last value of each key in a log that is read from its beginning, at little cost for values that come again.

Consumers commit offsets again and again for the same partitions: the same keys in a batch in which nothing differs but
the values; and others commit with other keys that are as long. A batch whose keys and values lie as in one before (its
`_Shape`) is cut by one call, and so are all of a row of batches with one record each. Of a batch with more records the
keys are kept as well (a `_Form`): it is recognized by what lies around its values when it comes again, and its keys are
looked at once, when all is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from penstock.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, LENGTH_END, MAGIC, BatchHeader
from penstock.protocol.records import keys_and_values, unpack_records
from penstock.protocol.varint import decode_varint

MOST_FIELDS: Final = 1_000_000
"""Records that all forms that are kept may have together; a large one counts as several."""
USUAL_BYTES: Final = 64
"""Of a record. What a form has kept that was overtaken elsewhere takes memory until the form is forgotten."""
MOST_SHAPED: Final = 100_000
"""Those that all shapes may have, each of which takes more memory."""
KEY_AT: Final = 5
"""In the first record of a batch, if all numbers before it take one byte; its own length may take more."""
AT_ONCE: Final = 200
"""Pairs that are given at once: to apply them takes a millisecond."""
SORTED_AT_ONCE: Final = 1_000
"""Pairs that are sorted, or looked at, before others have their turn: it takes less than a millisecond."""

_HEADER: Final = ">qi4xb4xhi30xi"
_PLACE: Final = Struct(_HEADER)
"""Of a header: base offset, length, magic, attributes, last offset delta, record count."""

_NEVER: Final = -1, b"", None

_Name = tuple[int, int, bytes]
_Pair = tuple[bytes, bytes | None]
_Written = tuple[int, bytes, bytes | None]
_Row = tuple[int, list[_Pair]]
"""Pairs that were written one after the other, and when the first was."""


class _Shape:
    """Batches whose keys and values lie in the same places: all that lies around them is the same, too (`fixed`)."""

    __slots__ = ("batch", "fixed", "frame", "values", "whole")

    def __init__(self, records: bytes, lengths: list[tuple[int, int, int, int]]) -> None:
        """Of each record: the bytes before its key, its key, those before its value, and the value."""
        rest = len(records) - sum(map(sum, lengths))
        fields = "".join([f"{before}s{key}s{between}s{value}s" for before, key, between, value in lengths]) + f"{rest}s"
        self.whole = Struct(fields)
        self.batch = Struct(_HEADER + fields if len(lengths) == 1 else "")
        """With its header, where there is one record."""
        self.fixed = self.whole.unpack(records)[::2]
        ahead = [(before + key + between, value) for before, key, between, value in lengths]
        self.frame = Struct("".join([f"{width}s{value}x" for width, value in ahead]) + f"{rest}s")
        """All but the values."""
        self.values = Struct("".join([f"{width}x{value}s" for width, value in ahead]) + f"{rest}x")


class _Form:
    """Batches that differ in nothing but values: what lies around these is `fixed`. The last one's records are kept."""

    __slots__ = ("fields", "fixed", "keys", "number", "records", "shape")

    def __init__(self, shape: _Shape, keys: tuple[bytes, ...], records: bytes, number: int) -> None:
        self.shape = shape
        self.fixed = b"".join(shape.frame.unpack(records))
        self.keys = keys
        self.fields = max(len(keys), len(records) // USUAL_BYTES)
        self.records = records
        self.number = number

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.shape.values.unpack(self.records), strict=True)


class LastValues:
    """Takes the batches of a log, oldest first. Records without a key do not count."""

    def __init__(self) -> None:
        self._number = 0
        self._latest: dict[bytes, _Written] = {}
        """When a key was written last, the key and its value."""
        self._shapes: dict[_Name, _Shape | None] = {}
        """None for what was seen once, or has none."""
        self._forms = OrderedDict[_Name, _Form]()
        """The one that came last is the last."""
        self._in_rows: dict[bytes, int] = {}
        """Keys of forms that are forgotten as all is read, and when these came last."""
        self._fields = 0
        """What forms have together."""
        self._shaped = 0
        """What shapes have together."""
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
            latest, _, _ = self._latest.get(key, _NEVER)
            yield producer_id, key, value, max(latest, self._in_rows.get(key, latest)) >= number

    def take_again(self, data: bytes, position: int, behind: int) -> tuple[int, int]:
        """Take the batches from `position` on that have known shapes: where the first other one lies, or one that is
        cut off, compressed, a marker or of a transaction; and the offset behind those that were taken, else `behind`.
        """
        size = len(data)
        while size - position >= HEADER_SIZE:
            base_offset, length, magic, attributes, delta, count = _PLACE.unpack_from(data, position)
            end = position + LENGTH_END + length
            if end > size or magic != MAGIC or attributes:
                break
            if count == 1:
                begin, (position, behind) = position, self._take_row(data, position, end, behind)
                if position == begin:
                    break
            elif self._is_known(data, position + HEADER_SIZE, end, count):
                position, behind = end, base_offset + delta + 1
            else:
                break
        return position, behind

    def _take_row(self, data: bytes, position: int, end: int, behind: int) -> tuple[int, int]:
        """As `take_again`, for batches with one record that are of one shape, as long as they follow each other."""
        shape = self._shapes.get(_name_of_shape(data, position + HEADER_SIZE, end, 1))
        if shape is None:
            return position, behind
        size, first, latest = end - position, self._number, self._latest
        row = memoryview(data)[position : len(data) - (len(data) - position) % size]
        for number, fields in enumerate(shape.batch.iter_unpack(row), first):
            base_offset, length, magic, attributes, delta, count, before, key, between, value, rest = fields
            if length + LENGTH_END != size or magic != MAGIC or attributes or count != 1:
                break
            if (before, between, rest) != shape.fixed:
                break
            latest[key] = number, key, value
            self._number, behind = number + 1, base_offset + delta + 1
        return position + (self._number - first) * size, behind

    def take(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Raises DecodeError."""
        begin, end, count = position + HEADER_SIZE, position + header.size_in_bytes, header.record_count
        if header.attributes & COMPRESSION_MASK:
            data = unpack_records(data, position, header)
            begin, end = 0, len(data)
        if self._is_known(data, begin, end, count):
            return
        records = data[begin:end]
        found = keys_and_values(records, header)
        name = _name_of_shape(records, 0, len(records), count)
        is_seen = name in self._shapes
        self._learn(name, _shape_of(records, found) if is_seen else None)
        if is_seen and self._is_known(records, 0, len(records), count):
            return
        for number, (key, value) in enumerate(found, self._number):
            if key is not None:
                self._latest[key] = number, key, value
        self._number += count

    def _is_known(self, data: bytes, begin: int, end: int, count: int) -> bool:
        """By its form or by its shape, and is taken then."""
        if count > 1:
            name = _name_of_form(data, begin, end, count)
            form = self._forms.get(name)
            if form is not None and b"".join(form.shape.frame.unpack_from(data, begin)) == form.fixed:
                form.records, form.number = data[begin:end], self._number
                self._forms.move_to_end(name)
                self._number += count
                return True
        shape = self._shapes.get(_name_of_shape(data, begin, end, count))
        if shape is None:
            return False
        fields = shape.whole.unpack_from(data, begin)
        if fields[::2] != shape.fixed:
            return False
        keys = fields[1::4]
        if 1 < count == len(set(keys)):
            self._keep(name, _Form(shape, keys, data[begin:end], self._number))
        else:
            for number, key, value in zip(range(self._number, self._number + count), keys, fields[3::4], strict=True):
                self._latest[key] = number, key, value
        self._number += count
        return True

    def _learn(self, name: _Name, shape: _Shape | None) -> None:
        """Forget all others, if there are too many."""
        self._shaped += name[1]
        if self._shaped > MOST_SHAPED:
            self._shapes.clear()
            self._shaped = 0
        self._shapes[name] = shape

    def _keep(self, name: _Name, form: _Form) -> None:
        """In place of those that came longest ago, if there are too many."""
        if name in self._forms:
            self._forget(name)
        self._forms[name] = form
        self._fields += form.fields
        while self._fields > MOST_FIELDS:
            self._forget(next(iter(self._forms)))

    def _forget(self, name: _Name) -> None:
        form = self._forms.pop(name)
        self._fields -= form.fields
        self._enter(form)

    def _enter(self, form: _Form) -> None:
        """Note what came last in a form that is forgotten, where nothing came later."""
        for number, (key, value) in enumerate(form.pairs(), form.number):
            known = self._latest.get(key)
            if known is None or known[0] < number:
                self._latest[key] = number, key, value

    def in_order(self) -> Iterator[list[_Pair]]:
        """Keys and values in the order in which they were written last, some at a time, or none yet: others may have
        their turn in between.
        """
        rows = list[_Row]()
        for _ in self._settling(rows):
            yield []
        some = list[_Pair]()
        for row in self._merged(rows):
            some += row
            if len(some) >= AT_ONCE or not row:
                for begin in range(0, max(len(some), 1), AT_ONCE):
                    yield some[begin : begin + AT_ONCE]
                some = []
        yield some

    def _settling(self, rows: list[_Row]) -> Iterator[None]:
        """Forget the forms, in steps, and put what came last in them into rows, the later ones first."""
        looked_at = 0
        while self._forms:
            _, form = self._forms.popitem()
            row = self._last_of(form)
            if row:
                rows.append((form.number, row))
            looked_at += len(form.keys)
            if looked_at >= SORTED_AT_ONCE:
                looked_at = 0
                yield
        self._fields = 0

    def _merged(self, rows: list[_Row]) -> Iterator[list[_Pair]]:
        """In order, with what is in no row; none where others may have their turn."""
        for some in _in_order(self._latest.values(), len(self._latest), range(self._number)):
            at = 0
            while rows and some and rows[-1][0] < some[-1][0]:
                number, row = rows.pop()
                end = bisect_left(some, (number,), at)
                if end > at:
                    yield [(key, value) for _, key, value in some[at:end]]
                yield row
                at = end
            yield [(key, value) for _, key, value in some[at:]]
        while rows:
            yield rows.pop()[1]

    def _last_of(self, form: _Form) -> list[_Pair]:
        """What came later is known by now."""
        latest, later, number = self._latest, self._in_rows, form.number
        if latest.keys().isdisjoint(form.keys) and later.keys().isdisjoint(form.keys):
            later.update(dict.fromkeys(form.keys, number))
            return list(form.pairs())
        found = list[_Pair]()
        for key, value in form.pairs():
            known = latest.get(key)
            if key not in later and (known is None or known[0] < number):
                latest.pop(key, None)
                later[key] = number
                found.append((key, value))
        return found


def _name_of_shape(data: bytes, begin: int, end: int, count: int) -> _Name:
    """How many bytes and records there are, and how long the first record and its key are."""
    return end - begin, count, data[begin : begin + KEY_AT + 1]


def _name_of_form(data: bytes, begin: int, end: int, count: int) -> _Name:
    """How many bytes and records there are, and what comes first, up to the end of the first key: that nearly all
    batches of one name are of one form.
    """
    key_at = begin + KEY_AT
    while key_at < min(end, begin + 2 * KEY_AT) and data[key_at - KEY_AT] > 0x7F:
        key_at += 1
    return end - begin, count, data[begin : key_at + (data[key_at - 1] >> 1) if key_at <= end else end]


def _shape_of(records: bytes, found: list[tuple[bytes | None, bytes | None]]) -> _Shape | None:
    """None if there are not all keys and values."""
    lengths, begin, behind = list[tuple[int, int, int, int]](), 0, 0
    for key, value in found:
        if key is None or value is None:
            return None
        length, at = decode_varint(records, begin)
        begin = at + length
        at += 1  # attributes
        for _ in range(3):  # timestamp, offset, length of the key
            _, at = decode_varint(records, at)
        _, value_at = decode_varint(records, at + len(key))
        lengths.append((at - behind, len(key), value_at - at - len(key), len(value)))
        behind = value_at + len(value)
    return _Shape(records, lengths)


def _in_order(written: Iterable[_Written], count: int, numbers: range) -> Iterator[list[_Written]]:
    """By their numbers, which are among these. To sort very many at once would take long."""
    if count <= SORTED_AT_ONCE:
        found = sorted(written)
        for begin in range(0, count, AT_ONCE):
            yield found[begin : begin + AT_ONCE]
        return
    parts = [list[_Written]() for _ in range(count // AT_ONCE + 1)]
    width = len(numbers) // len(parts) + 1
    for place, one in enumerate(written):
        parts[(one[0] - numbers.start) // width].append(one)
        if place % SORTED_AT_ONCE == 0:
            yield []
    for number, part in enumerate(parts):
        yield from _in_order(part, len(part), numbers[number * width : (number + 1) * width])
