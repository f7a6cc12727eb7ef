"""Compiles the writer of one message in one version: a function of straight code, structures within it unrolled.

Consecutive fields of fixed size, together with the length of what follows them, are written by one precompiled Struct.
"""

from collections.abc import Callable
from struct import Struct, pack
from typing import Any

from penstock.protocol.schema import Field, Message
from penstock.protocol.source import FIXED, PACKED_ARRAYS, SHORT_ARRAY, Source, Version, fields_in, short_arrays
from penstock.protocol.varint import encode_uvarint

Writer = Callable[[bytearray, Any], None]


def compile_writer(cls: type[Message], version: int) -> Writer:
    """Writers take (buffer, message) and append the message's bytes."""
    return _WriterSource(Version(cls, version)).compile(cls)


class _WriterSource(Source):
    def __init__(self, version: Version) -> None:
        super().__init__()
        self.version = version
        self._out = "out"
        self._formats: list[str] = []
        self._values: list[str] = []
        self.scope.update(uvarint=encode_uvarint, pack=pack)

    def compile(self, cls: type[Message]) -> Writer:
        self._structure(cls, "message")
        self._flush()
        self.line("return None")
        return self.function("write(out, message)")

    def _fixed(self, code: str, value: str | None) -> None:
        self._formats.append(code)
        if value is not None:
            self._values.append(value)

    def _packed(self, formats: list[str], values: list[str]) -> str:
        if not values:
            return repr(bytes(len(formats)))
        packer = self.constant("pack", Struct(">" + "".join(formats)).pack)
        return f"{packer}({', '.join(values)})"

    def _flush(self) -> None:
        if self._formats:
            self.line(f"{self._out} += {self._packed(self._formats, self._values)}")
        self._formats, self._values = [], []

    def _structure(self, cls: type[Message], owner: str) -> None:
        plain, tagged, _ = fields_in(cls, self.version)
        for name, item in plain.items():
            self._field(item, f"{owner}.{name}")
        if self.version.flexible:
            if tagged:
                self._tagged_fields(tagged, owner)
            else:
                self._fixed("x", None)

    def _field(self, item: Field, value: str) -> None:
        nullable = item.is_nullable_in(self.version.number)
        flexible = self.version.flexible and item.flexible
        if item.is_array:
            self._array(item, value, nullable, flexible)
        else:
            self._value(item.kind, value, nullable, bool(item.nullable), flexible)

    def _value(self, kind: str | type[Message], value: str, nullable: bool, may_be_none: bool, flexible: bool) -> None:
        if not isinstance(kind, str):
            self._nullable_structure(kind, value) if nullable else self._structure(kind, self._local(value))
        elif kind == "uuid":
            self._fixed("16s", f"{value}.bytes")
        elif kind in FIXED:
            self._fixed(FIXED[kind], value)
        else:
            self._blob(kind, value, nullable, may_be_none, flexible)

    def _local(self, value: str) -> str:
        if value.isidentifier():
            return value
        local = self.name("v")
        self.line(f"{local} = {value}")
        return local

    def _nullable_structure(self, kind: type[Message], value: str) -> None:
        self._flush()
        local = self._local(value)
        self.line(f"if {local} is None:")
        self.line(f"    {self._out} += b'\\xff'")
        self.line("else:")
        self.depth += 1
        self._fixed("b", "1")
        self._structure(kind, local)
        self._flush()
        self.depth -= 1

    def _length(self, length: str, code: str, flexible: bool) -> None:
        """Write a length; in flexible form it is one more, and takes a byte if it is below 128."""
        if not flexible:
            self._fixed(code, length)
            self._flush()
            return
        formats, values = self._formats, self._values
        self._formats, self._values = [], []
        compact = self.name("n")
        self.line(f"{compact} = {length} + 1")
        self.line(f"if {compact} < 128:")
        if formats:
            self.line(f"    {self._out} += {self._packed([*formats, 'B'], [*values, compact])}")
        else:
            self.line(f"    {self._out}.append({compact})")
        self.line("else:")
        if formats:
            self.line(f"    {self._out} += {self._packed(formats, values)}")
        self.line(f"    {self._out} += uvarint({compact})")

    def _blob(self, kind: str, value: str, nullable: bool, may_be_none: bool, flexible: bool) -> None:
        raw = self.name("s")
        make = f"{value}.encode()" if kind == "string" else value
        length = f"len({raw})"
        if may_be_none:
            local = self._local(value)
            make = f"{local}.encode()" if kind == "string" else local
            make = f"b'' if {local} is None else {make}"
            if nullable:
                length = self.name("n")
        self.line(f"{raw} = {make}")
        if nullable and may_be_none:
            self.line(f"{length} = -1 if {local} is None else len({raw})")
        self._length(length, "h" if kind == "string" else "i", flexible)
        self.line(f"{self._out} += {raw}")

    def _array(self, item: Field, value: str, nullable: bool, flexible: bool) -> None:
        items = self.name("items")
        length = self.name("n")
        self.line(f"{items} = {value}")
        if item.nullable:
            self.line(f"if {items} is None:")
            self.line(f"    {items} = ()")
            self.line(f"    {length} = {-1 if nullable else 0}")
            self.line("else:")
            self.line(f"    {length} = len({items})")
        else:
            self.line(f"{length} = len({items})")
        self._length(length, "i", flexible)
        if item.kind in PACKED_ARRAYS:
            assert isinstance(item.kind, str)
            self._packed_array(item.kind, items)
            return
        element = self.name("item")
        self.line(f"for {element} in {items}:")
        self.depth += 1
        self._value(item.kind, element, False, False, flexible)
        self._flush()
        self.depth -= 1

    def _packed_array(self, kind: str, items: str) -> None:
        length = self.name("n")
        short = self.constant("pack", tuple(layout.pack for layout in short_arrays(kind)))
        self.line(f"{length} = len({items})")
        self.line(f"if {length} < {SHORT_ARRAY}: {self._out} += {short}[{length}](*{items})")
        self.line(f"else: {self._out} += pack(f'>{{{length}}}{FIXED[kind]}', *{items})")

    def _tagged_fields(self, tagged: dict[str, Field], owner: str) -> None:
        self._flush()
        count, tags = self.name("n"), self.name("tags")
        self.line(f"{count} = 0")
        self.line(f"{tags} = bytearray()")
        for name, item in tagged.items():
            local = self.name("v")
            self.line(f"{local} = {owner}.{name}")
            self.line(f"if {local} != {self.constant('default', item.new_default())}:")
            self.depth += 1
            self._tagged_field(item, local, tags)
            self.line(f"{count} += 1")
            self.depth -= 1
        self.line(f"{self._out} += uvarint({count})")
        self.line(f"{self._out} += {tags}")

    def _tagged_field(self, item: Field, value: str, tags: str) -> None:
        outer, self._out = self._out, self.name("tag")
        self.line(f"{self._out} = bytearray()")
        self._field(item, value)
        self._flush()
        assert item.tag is not None
        self.line(f"{tags} += {encode_uvarint(item.tag)!r}")
        self.line(f"{tags} += uvarint(len({self._out}))")
        self.line(f"{tags} += {self._out}")
        self._out = outer
