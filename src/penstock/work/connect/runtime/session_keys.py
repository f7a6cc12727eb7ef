"""Keys with which workers sign what they hand on to each other (KIP-507): the leader writes one, and then another.

They are records of the config topic, so whoever may read that topic can ask in the name of any user.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

SESSION_KEY: Final = "session-key"
BITS: Final = {"HmacSHA256": 256, "HmacSHA384": 384, "HmacSHA512": 512}
"""By the algorithm's name in Java: how long a key is if nobody says."""
_HASHES: Final = {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}
KEPT: Final = 2
"""A worker knows the last two: what is signed with the older one may be under way when the newer one is read."""


class SessionKey(Value):
    """`text` is base64; `created_ms` by the clock of the worker that made it."""

    text: Secret
    algorithm: str
    created_ms: int


def new_key(random: bytes, algorithm: str, created_ms: int) -> SessionKey:
    return SessionKey(Secret(base64.b64encode(random).decode()), algorithm, created_ms)


def as_document(key: SessionKey) -> Mapping[str, Any]:
    """As Kafka's workers have it in the value of the record."""
    return {"key": key.text.text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}


def read_key(document: Mapping[str, Any]) -> SessionKey | None:
    """None for what is none; whoever writes to the topic may write anything."""
    match document:
        case {"key": str(text), "algorithm": str(algorithm), "creation-timestamp": int(created_ms)} if text:
            try:
                base64.b64decode(text, validate=True)
            except ValueError:
                return None
            return SessionKey(Secret(text), algorithm, created_ms)
    return None


def due_in_ms(key: SessionKey | None, algorithm: str, ttl_ms: int, now_ms: int) -> int:
    """When the leader has to write the next one; a clock that was set back makes no key hold for longer."""
    if key is None or key.algorithm != algorithm:
        return 0
    return min(max(key.created_ms + ttl_ms - now_ms, 0), ttl_ms)


def signature(key: SessionKey, algorithm: str, message: bytes) -> bytes:
    """`algorithm` is one of BITS."""
    return hmac.digest(base64.b64decode(key.text.text), message, _HASHES[algorithm])
