"""Compiles the reader of one message in one version: a function of straight code, structures within it unrolled.

Consecutive fields of fixed size, together with the length of what follows them, are read by one precompiled Struct.
Strings of requests have at most `LONGEST_STRING` bytes, as in Kafka: a flexible version has lengths beyond.
"""

from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Any, Final, NoReturn

from penstock.protocol.errors import DecodeError, TooManyItemsError
from penstock.protocol.schema import Field, Message, is_request
from penstock.protocol.source import (
    FIXED,
    FIXED_SIZE,
    PACKED_ARRAYS,
    SHORT_ARRAY,
    Source,
    Version,
    fields_in,
    min_size,
    min_size_of,
    short_arrays,
)
from penstock.protocol.uuids import uuid_of
from penstock.protocol.varint import (
    Buffer,
    check_tagged_fields,
    decode_long_uvarint,
    decode_uvarint,
    skip_tagged_fields,
)

_MAKE = {"string": 'str(buf[pos:stop], "utf-8") if stop > pos else ""', "slice": "buf[pos:stop]"}

LONGEST_STRING: Final = 32_767
"""In a request: what is done with a name would take long."""

Reader = Callable[[Buffer, int, int], tuple[Any, int]]


def _refuse(what: str, length: int, left: int) -> NoReturn:
    raise DecodeError(f"{what} declares a length of {length} with {left} bytes left")


def _too_long(what: str, length: int) -> NoReturn:
    raise DecodeError(f"{what} has {length} bytes, and strings of a request at most {LONGEST_STRING}")


def _too_many(max_items: int) -> NoReturn:
    raise TooManyItemsError(f"arrays and tagged fields of more than {max_items} items together")


def compile_reader(cls: type[Message], version: int, *, max_items: int | None = None) -> Reader:
    """Readers take (buffer, position, end), return (message, next position). `max_items` bounds all arrays together."""
    return _ReaderSource(Version(cls, version), max_items).compile(cls)


class _ReaderSource(Source):
    def __init__(self, version: Version, max_items: int | None) -> None:
        super().__init__()
        self.version = version
        self._max_items = max_items
        self._bounds_strings = False
        self._formats: list[str] = []
        self._targets: list[str] = []
        self._afterwards: list[str] = []
        self.scope.update(
            new=object.__new__,
            uuid_of=uuid_of,
            refuse=_refuse,
            too_long=_too_long,
            too_many=_too_many,
            check_tagged_fields=check_tagged_fields,
            skip_tagged_fields=skip_tagged_fields,
            long_uvarint=decode_long_uvarint,
            uvarint=decode_uvarint,
            unpack_from=unpack_from,
        )

    def compile(self, cls: type[Message]) -> Reader:
        self._bounds_strings = is_request(cls)
        if self._max_items is not None:
            self.line(f"items_left = {self._max_items}")
        self._structure(cls, "message")
        self._flush()
        self.line("return message, pos")
        return self.function("read(buf, pos, end)")

    def _fixed(self, code: str, target: str) -> None:
        self._formats.append(code)
        self._targets.append(target)

    def _flush(self) -> None:
        if not self._formats:
            return
        if self._formats == ["B"]:
            self.line(f"{self._targets[0]} = buf[pos]")
            self.line("pos += 1")
        else:
            layout = Struct(">" + "".join(self._formats))
            unpack = self.constant("unpack", layout.unpack_from)
            self.line(f"{', '.join(self._targets)}, = {unpack}(buf, pos)")
            self.line(f"pos += {layout.size}")
        for line in self._afterwards:
            self.line(line)
        self._formats, self._targets, self._afterwards = [], [], []

    def _structure(self, cls: type[Message], target: str) -> None:
        plain, tagged, absent = fields_in(cls, self.version)
        owner = target if target.isidentifier() else self.name("o")
        self.line(f"{owner} = new({self.constant('Class', cls)})")
        for name, item in (absent | tagged).items():
            self._default(item, f"{owner}.{name}")
        for name, item in plain.items():
            self._field(name, item, f"{owner}.{name}")
        if self.version.flexible:
            self._tagged_fields(tagged, owner)
        if owner != target:
            self.line(f"{target} = {owner}")

    def _default(self, item: Field, target: str) -> None:
        if item.default_factory is None:
            self.line(f"{target} = {self.constant('default', item.default)}")
        else:
            self.line(f"{target} = {self.constant('factory', item.default_factory)}()")

    def _field(self, name: str, item: Field, target: str) -> None:
        nullable = item.is_nullable_in(self.version.number)
        flexible = self.version.flexible and item.flexible
        if item.is_array:
            self._array(name, item, target, nullable, flexible)
        else:
            self._value(name, item.kind, target, nullable, flexible)

    def _value(self, name: str, kind: str | type[Message], target: str, nullable: bool, flexible: bool) -> None:
        if not isinstance(kind, str):
            self._nullable_structure(kind, target) if nullable else self._structure(kind, target)
        elif kind == "uuid":
            self._fixed("16s", raw := self.name("raw"))
            self._afterwards.append(f"{target} = uuid_of({raw})")
        elif kind in FIXED:
            self._fixed(FIXED[kind], target)
        else:
            self._blob(name, kind, target, nullable, flexible)

    def _nullable_structure(self, kind: type[Message], target: str) -> None:
        self._fixed("b", marker := self.name("n"))
        self._flush()
        self._unless_null(marker, target)
        self._structure(kind, target)
        self._flush()
        self.depth -= 1

    def _unless_null(self, length: str, target: str) -> None:
        """What comes next is in the branch for a value; the caller ends it."""
        self.line(f"if {length} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1

    def _length(self, code: str, flexible: bool) -> str:
        """Read a length (a compact one is made a plain one) and return its name; below 0 it stands for null."""
        length = self.name("n")
        self._fixed("B" if flexible else code, length)
        self._flush()
        if flexible:
            self.line(f"if {length} > 127: {length}, pos = long_uvarint(buf, pos, {length})")
            self.line(f"{length} -= 1")
        return length

    def _blob(self, name: str, kind: str, target: str, nullable: bool, flexible: bool) -> None:
        length = self._length("h" if kind == "string" else "i", flexible)
        make = _MAKE.get(kind, "bytes(buf[pos:stop])")
        if nullable:
            self._unless_null(length, target)
        self.line(f"stop = pos + {length}")
        negative = "" if nullable else f"{length} < 0 or "
        self.line(f"if {negative}stop > end: refuse({name!r}, {length}, end - pos)")
        if kind == "string" and flexible and self._bounds_strings:
            self.line(f"if {length} > {LONGEST_STRING}: too_long({name!r}, {length})")
        self.line(f"{target} = {make}")
        self.line("pos = stop")
        self.depth -= nullable

    def _array(self, name: str, item: Field, target: str, nullable: bool, flexible: bool) -> None:
        length = self._length("i", flexible)
        if nullable:
            self._unless_null(length, target)
        kind = item.kind
        size = min_size_of(kind, flexible) if isinstance(kind, str) else min_size(kind, self.version)
        assert size > 0, "an array of nothing could not be bounded"
        negative = "" if nullable else f"{length} < 0 or "
        self.line(f"if {negative}{length} * {size} > end - pos: refuse({name!r}, {length}, end - pos)")
        self._count(length)
        if kind in PACKED_ARRAYS:
            assert isinstance(kind, str)
            short = self.constant("unpack", tuple(layout.unpack_from for layout in short_arrays(kind)))
            self.line(f"if {length} < {SHORT_ARRAY}: {target} = list({short}[{length}](buf, pos))")
            self.line(f"else: {target} = list(unpack_from(f'>{{{length}}}{FIXED[kind]}', buf, pos))")
            self.line(f"pos += {length} * {FIXED_SIZE[kind]}")
        else:
            self._loop(name, kind, target, length, flexible)
        self.depth -= nullable

    def _count(self, length: str) -> None:
        if self._max_items is not None:
            self.line(f"items_left -= {length}")
            self.line(f"if items_left < 0: too_many({self._max_items})")

    def _loop(self, name: str, kind: str | type[Message], target: str, length: str, flexible: bool) -> None:
        items, element = self.name("items"), self.name("item")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({length}):")
        self.depth += 1
        self._value(name, kind, element, False, flexible)
        self._flush()
        self.line(f"{items}.append({element})")
        self.depth -= 1

    def _tagged_fields(self, tagged: dict[str, Field], owner: str) -> None:
        self._fixed("B", count := self.name("n"))
        self._flush()
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, pos = long_uvarint(buf, pos, {count})")
        self._count(count)
        if not tagged:
            self.line(f"pos = skip_tagged_fields(buf, pos, {count}, end)")
        else:
            self._known_tagged_fields(tagged, owner, count)
        self.depth -= 1

    def _known_tagged_fields(self, tagged: dict[str, Field], owner: str, count: str) -> None:
        tag, size, stop = self.name("tag"), self.name("size"), self.name("stop")
        self.line(f"check_tagged_fields({count})")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, pos = uvarint(buf, pos)")
        self.line(f"{size}, pos = uvarint(buf, pos)")
        self.line(f"{stop} = pos + {size}")
        self.line(f"if {stop} > end: refuse('a tagged field', {size}, end - pos)")
        keyword = "if"
        for name, item in tagged.items():
            self.line(f"{keyword} {tag} == {item.tag}:")
            self.depth += 1
            self._field(name, item, f"{owner}.{name}")
            self._flush()
            self.line(f"if pos != {stop}: refuse({name!r}, {size}, {size} + pos - {stop})")
            self.depth -= 1
            keyword = "elif"
        self.line("else:")
        self.line(f"    pos = {stop}")
        self.depth -= 1
