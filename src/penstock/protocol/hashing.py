"""The hashes by which Kafka's clients and brokers agree where a key or a group belongs."""

from functools import lru_cache
from operator import mul
from struct import iter_unpack, unpack
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_LEAST: Final = -(1 << 31)
_REMEMBERED: Final = 10_000
"""Of keys that are not longer than `_SHORT`."""
_SHORT: Final = 200
_BEGINNINGS: Final = 100
"""Of longer ones, all but the last `_END` characters, which may be tens of kB."""
_END: Final = 40
"""Where the id and the number of a share partition are."""


def murmur2(key: bytes) -> int:
    """The unsigned 32-bit hash that Java clients take of a record's key."""
    h = _SEED ^ len(key)
    whole = len(key) & ~3
    for (k,) in iter_unpack("<I", key[:whole]):
        k = k * _MULTIPLIER & _MASK
        k = (k ^ k >> 24) * _MULTIPLIER & _MASK
        h = h * _MULTIPLIER & _MASK ^ k
    rest = key[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 13) * _MULTIPLIER & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """As the default partitioner of Java clients does."""
    return (murmur2(key) & _POSITIVE) % partitions


_POWERS: Final = [pow(31, exponent, _MASK + 1) for exponent in reversed(range(256))]
_PORTION: Final = 2 * len(_POWERS)
"""In bytes, of a text that is hashed: many units at a time are a third of the work of one at a time."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`, a signed 32-bit number; it counts UTF-16 units, not characters."""
    data, h = text.encode("utf-16-le", "surrogatepass"), 0
    for start in range(0, len(data), _PORTION):
        units = unpack(f"<{min(_PORTION, len(data) - start) // 2}H", data[start : start + _PORTION])
        h = h * pow(31, len(units), _MASK + 1) + sum(map(mul, units, _POWERS[-len(units) :])) & _MASK
    return h - (1 << 32) if h > _POSITIVE else h


def coordinator_partition(key: str, partitions: int) -> int:
    """The partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state` whose leader coordinates
    this group, transactional id or share partition. Java's `Math.abs` of the hash, modulo the partitions; the least
    integer, which has no absolute value, counts as 0.
    """
    hashed = _short_hash(key) if len(key) <= _SHORT else _long_hash(key)
    return 0 if hashed == _LEAST else abs(hashed) % partitions


_short_hash: Final = lru_cache(maxsize=_REMEMBERED)(java_string_hash)
_begun_hash: Final = lru_cache(maxsize=_BEGINNINGS)(java_string_hash)


def _long_hash(key: str) -> int:
    """Keys of share partitions are alike but for their ends; a group's name may have 32 kB, which take milliseconds."""
    end = key[-_END:]
    units = len(end.encode("utf-16-le", "surrogatepass")) // 2
    h = _begun_hash(key[:-_END]) * pow(31, units, _MASK + 1) + java_string_hash(end) & _MASK
    return h - (1 << 32) if h > _POSITIVE else h
