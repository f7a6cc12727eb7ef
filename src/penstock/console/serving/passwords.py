"""Passwords of those who log in at the console, as a file has them: hashed by scrypt, or as they are."""

import asyncio
import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

from penstock.protocol.secret import Secret

HASHED: Final = "scrypt:"
COST: Final = 2**14
"""16 MiB and some 50 ms for each try."""
LEAST_COST, MOST_COST = 2**12, 2**16
BLOCKS: Final = 8
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
MOST_MEMORY: Final = 128 * 1024 * 1024
AT_ONCE: Final = 2
MOST_CHARACTERS: Final = 1_000


def hashed(password: str) -> str:
    """`scrypt:COST:SALT:HASH`, the last two in base64."""
    salt = secrets.token_bytes(SALT_BYTES)
    return f"{HASHED}{COST}:{_text(salt)}:{_text(_hash(password, salt, COST))}"


def is_hashed(stored: Secret) -> bool:
    """ValueError for one that begins so and is none."""
    if not stored.text.startswith(HASHED):
        return False
    _parts(stored)
    return True


class Passwords:
    """Of each user. Who is none takes as long as who is one."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users
        has_hashes = any(map(is_hashed, users.values()))
        self._nobodys = Secret(hashed("") if has_hashes else "")
        self._free = asyncio.Semaphore(AT_ONCE)

    async def are_right(self, user: str, password: str) -> bool:
        stored = self._users.get(user)
        if len(password) > MOST_CHARACTERS:
            return False
        async with self._free:
            matches = await asyncio.to_thread(_matches, self._nobodys if stored is None else stored, password)
        return matches and stored is not None


def _matches(stored: Secret, password: str) -> bool:
    if not is_hashed(stored):
        return hmac.compare_digest(stored.text.encode(), password.encode())
    cost, salt, expected = _parts(stored)
    return hmac.compare_digest(expected, _hash(password, salt, cost))


def _parts(stored: Secret) -> tuple[int, bytes, bytes]:
    cost, salt, expected = stored.text.removeprefix(HASHED).split(":")
    parts = int(cost), urlsafe_b64decode(salt), urlsafe_b64decode(expected)
    if not LEAST_COST <= parts[0] <= MOST_COST or parts[0] & (parts[0] - 1) or not parts[1] or len(parts[2]) < 16:
        raise ValueError("it is no hash of a password")
    return parts


def _hash(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=BLOCKS, p=1, dklen=HASH_BYTES, maxmem=MOST_MEMORY)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()
