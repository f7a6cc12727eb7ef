"""A message of each class with something in every field, made without chance; and bytes that go wrong, made with it."""

import random
from typing import Any
from uuid import UUID

from penstock.protocol.schema import Field, Message

VALUES: dict[str, Any] = {
    "bool": True, "int8": 3, "int16": 7, "uint16": 9092, "int32": 11, "int64": 13, "float64": 0.5, "string": "penstock",
    "bytes": b"bytes", "records": b"records", "uuid": UUID(int=0x1234567890ABCDEF1234567890ABCDEF),
}  # fmt: skip
LENGTHS = (
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\x7f\xff",
    b"\x80\x80\x80\x80\x08",
    b"\xff\xff\xff\xff\xff\xff",
)


def filled(cls: type[Message]) -> Any:
    """Return a message with a value in each field and two items in each array."""
    return cls(**{name: _value(item) for name, item in cls.__fields__.items()})


def _value(item: Field) -> object:
    one = VALUES[item.kind] if isinstance(item.kind, str) else filled(item.kind)
    return [one, one] if item.is_array else one


def mutated(data: bytes, source: random.Random) -> bytes:
    """Return bytes with one to three faults: a changed byte, a wild length, a cut, something twice."""
    out = bytearray(data)
    for _ in range(source.randrange(1, 4)):
        fault = source.random()
        position = int(source.random() * (len(out) + 1))
        if fault < 0.5 and position < len(out):
            out[position] = int(source.random() * 256)
        elif fault < 0.75:
            length = LENGTHS[int(source.random() * len(LENGTHS))]
            out[position : position + len(length)] = length
        elif fault < 0.9:
            del out[position:]
        else:
            out[position:position] = out[:position]
    return bytes(out)
