"""The last value of each key in a log that is read from its beginning, at little cost for values that come again.

Who commits offsets does so again and again for the same partitions: the same keys in a batch of the same form, in
which nothing differs but the values. Of such a batch the form is kept, one call takes the next one apart, and its keys
are looked at once, when all is read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.log.compaction.places import places
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import keys_and_values
from penstock.protocol.varint import encode_varint

MOST_FIELDS: Final = 1_000_000
"""So many records the forms that are kept may have together."""
KEY_AT: Final = 5
"""In the first record of a batch, if all numbers before it take one byte."""

_Name = tuple[int, bytes]


class _Form:
    """A batch but for its values: `layout` gives what lies before each value and the value in turn."""

    __slots__ = ("fixed", "keys", "layout", "number", "values")

    def __init__(self, layout: Struct, fixed: tuple[bytes, ...], keys: list[bytes]) -> None:
        self.layout = layout
        self.fixed = fixed
        self.keys = keys
        self.values: tuple[bytes, ...] = ()
        self.number = -1


class LastValues:
    """Give it the records of batches, oldest first. Records without a key do not count."""

    def __init__(self) -> None:
        self._number = 0
        self._latest: dict[bytes, tuple[int, bytes | None]] = {}
        """When a key was written last, and its value."""
        self._forms: dict[_Name, _Form | None] = {}
        """None for one that was seen once."""
        self._fields = 0

    def take(self, data: bytes, header: BatchHeader) -> None:
        """Take in what `unpack_records` returned; DecodeError."""
        name = len(data), data[: KEY_AT + (data[KEY_AT - 1] >> 1)] if len(data) >= KEY_AT else data
        form = self._forms.get(name)
        number = self._number
        self._number += header.record_count
        if form is not None and len(form.keys) == header.record_count:
            parts = form.layout.unpack(data)
            if parts[::2] == form.fixed:
                form.values, form.number = parts[1::2], number
                return
        found = keys_and_values(data, header)
        for at, (key, value) in enumerate(found, number):
            if key is not None:
                self._latest[key] = at, value
        if name in self._forms:
            self._keep_form(name, data, header, found)
        else:
            self._forms[name] = None

    def _keep_form(
        self, name: _Name, data: bytes, header: BatchHeader, found: list[tuple[bytes | None, bytes | None]]
    ) -> None:
        keys, values = [key for key, _ in found if key is not None], [value for _, value in found]
        if len(keys) < len(found) or None in values:
            return
        try:
            layout = _layout_of(data, header.record_count)
        except DecodeError:  # something odd, where no keys and values are
            return
        parts = layout.unpack(data)
        if list(parts[1::2]) == values:
            self._fields += len(keys)
            if self._fields > MOST_FIELDS:
                self._settle()
            self._forms[name] = _Form(layout, parts[::2], keys)

    def _settle(self) -> None:
        """Forget the forms, and enter what came in them."""
        latest = self._latest
        for form in self._forms.values():
            if form is not None:
                for number, (key, value) in enumerate(zip(form.keys, form.values, strict=False), form.number):
                    known = latest.get(key)
                    if known is None or known[0] < number:
                        latest[key] = number, value
        self._forms.clear()
        self._fields = 0

    def pairs(self) -> list[tuple[bytes, bytes | None]]:
        """Each key with its last value, in the order in which these were written."""
        self._settle()
        return [(key, value) for key, (_, value) in sorted(self._latest.items(), key=_when)]


def _layout_of(data: bytes, count: int) -> Struct:
    fields, at = [], 0
    for place in places(data, count):
        value_at = place.key_begin + place.key_length + len(encode_varint(place.value_length))
        fields.append(f"{value_at - at}s{place.value_length}s")
        at = value_at + place.value_length
    return Struct(f"{''.join(fields)}{len(data) - at}s")


def _when(item: tuple[bytes, tuple[int, bytes | None]]) -> int:
    return item[1][0]
