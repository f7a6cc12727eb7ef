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
    """The part of `random.Random` from which uuids are drawn."""

    def getrandbits(self, k: int, /) -> int:
        """Return a number of k random bits."""


@lru_cache(_KEPT)
def uuid_of(raw: bytes) -> UUID:
    """Return the uuid of 16 bytes; the ids of topics come again and again, and UUID() is slow."""
    return UUID(bytes=raw)


def uuid_to_text(uuid: UUID) -> str:
    """Return the 22 characters of url-safe base64, without padding, that Kafka's tools print and its files hold."""
    return urlsafe_b64encode(uuid.bytes)[:_TEXT_LENGTH].decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Return the uuid that `uuid_to_text` made this text of; ValueError for any other text."""
    if len(text) != _TEXT_LENGTH:
        raise ValueError(f"a uuid has {_TEXT_LENGTH} characters of base64, this has {len(text)}: {text!r}")
    uuid = UUID(bytes=urlsafe_b64decode(text + "=="))
    if uuid_to_text(uuid) != text:
        raise ValueError(f"not the base64 of a uuid: {text!r}")
    return uuid


def random_uuid(source: RandomBits) -> UUID:
    """Draw a uuid whose text does not start with a dash, which command lines would take for an option."""
    while True:
        uuid = UUID(int=source.getrandbits(128), version=4)
        if not uuid_to_text(uuid).startswith("-"):
            return uuid


def process_uuid(began_ms: int, source: RandomBits) -> UUID:
    """Draw a uuid for a process that begins now: one of version 7, which says when that was (RFC 9562)."""
    drawn = source.getrandbits(128) % (1 << _TIME_SHIFT) & ~_RFC_MASK
    return UUID(int=began_ms % (1 << _TIME_BITS) << _TIME_SHIFT | drawn | _RFC_BITS)


def began_ms(process: UUID) -> int | None:
    """When the process began that `process_uuid` drew this for, by its own clock; None for any other uuid."""
    return process.int >> _TIME_SHIFT if process.version == _TIMED_VERSION else None
