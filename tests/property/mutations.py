"""Frames that went wrong on their way, and messages that say what nobody means."""

from random import Random
from typing import TypeVar
from uuid import UUID

from penstock.protocol.schema import Message

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
MessageT = TypeVar("MessageT", bound=Message)


def mutated(frame: bytes, random: Random) -> bytes:
    """The frame with some of its bytes changed, cut off or doubled; its API key stays as it is."""
    changed = bytearray(frame)
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(2, len(changed))
        match random.randrange(4):
            case 0:
                changed[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 1:
                del changed[at + 1 :]
            case 2:
                changed[at:at] = changed[at : at + random.randrange(1, 20)]
            case _:
                changed[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"))
    return bytes(changed)


def wild(message: MessageT, random: Random) -> MessageT:
    """The message with some of its numbers, names and lists replaced by others that its layout allows."""
    return message.replace(
        **{name: _wild(getattr(message, name), message, name, random) for name in message.__fields__}
    )


def _wild(value: object, message: Message, name: str, random: Random) -> object:
    kind = message.__fields__[name].kind
    if isinstance(value, Message):
        return wild(value, random)
    if isinstance(value, list) and isinstance(kind, type):
        items = [wild(item, random) for item in value]
        return items * random.choice((1, 1, 1, 1, 0, 2)) or items[:0]
    if random.random() > 0.15:
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and kind in BITS:
        return _number(str(kind), random)
    if isinstance(value, UUID):
        return UUID(int=random.choice((0, 1, 2, random.getrandbits(128))))
    if isinstance(value, str):
        return random.choice(("", "x", value + value, "\0", "é" * 300))
    return value


def _number(kind: str, random: Random) -> int:
    bits = BITS[kind]
    if kind.startswith("u"):
        return random.choice((0, 1, (1 << bits) - 1))
    top = 1 << (bits - 1)
    return random.choice((-top, -2, -1, 0, 1, 2, 3, 7, top - 2, top - 1))
