"""Uuids as Kafka writes them in text, and uuids from a given source of chance."""

import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID

ZERO_UUID = UUID(int=0)
_TEXT_LENGTH = 22


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


def random_uuid(source: random.Random) -> UUID:
    """Draw a uuid whose text does not start with a dash, which command lines would take for an option."""
    while True:
        uuid = UUID(int=source.getrandbits(128), version=4)
        if not uuid_to_text(uuid).startswith("-"):
            return uuid
