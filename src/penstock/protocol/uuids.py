"""Uuids as Kafka writes them in text, and uuids from a given source of chance."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Final, Protocol
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)
_TEXT_LENGTH: Final = 22
_TIMED_VERSION: Final = 7
_TIME_SHIFT: Final = 80
_TIME_BITS: Final = 48
_RFC_BITS: Final = 7 << 76 | 2 << 62
_RFC_MASK: Final = 0xF << 76 | 3 << 62
_KEPT: Final = 4096


class RandomBits(Protocol):
    def getrandbits(self, k: int, /) -> int: ...


@lru_cache(_KEPT)
def uuid_of(raw: bytes) -> UUID:
    """The ids of topics come again and again, and UUID() is slow."""
    return UUID(bytes=raw)


def uuid_to_text(uuid: UUID) -> str:
    """The 22 characters of url-safe base64, without padding, that Kafka's tools print and its files hold."""
    return urlsafe_b64encode(uuid.bytes)[:_TEXT_LENGTH].decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Reverse of `uuid_to_text`; ValueError for any other text."""
    if len(text) != _TEXT_LENGTH:
        raise ValueError(f"a uuid has {_TEXT_LENGTH} characters of base64, this has {len(text)}: {text!r}")
    uuid = UUID(bytes=urlsafe_b64decode(text + "=="))
    if uuid_to_text(uuid) != text:
        raise ValueError(f"not the base64 of a uuid: {text!r}")
    return uuid


def random_uuid(source: RandomBits) -> UUID:
    """Its text does not start with a dash, which command lines would take for an option."""
    while True:
        uuid = UUID(int=source.getrandbits(128), version=4)
        if not uuid_to_text(uuid).startswith("-"):
            return uuid


def process_uuid(began_ms: int, source: RandomBits) -> UUID:
    """Version 7, which holds the time (RFC 9562)."""
    drawn = source.getrandbits(128) % (1 << _TIME_SHIFT) & ~_RFC_MASK
    return UUID(int=began_ms % (1 << _TIME_BITS) << _TIME_SHIFT | drawn | _RFC_BITS)


def began_ms(process: UUID) -> int | None:
    """By the clock of that process; None for other uuids than those of `process_uuid`."""
    return process.int >> _TIME_SHIFT if process.version == _TIMED_VERSION else None
