"""The records that every client sends and reads back: keys, headers, timestamps, nothing at all."""

from __future__ import annotations

from dataclasses import dataclass, field

NOW_MS = 1_700_000_000_000

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Sent:
    """One record as an application sees it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


RECORDS = [
    Sent(b"key", b"value", NOW_MS),
    Sent(None, b"no key", NOW_MS + 1),
    Sent(b"no value", None, NOW_MS + 2),
    Sent(b"", b"", NOW_MS + 3),
    Sent(b"headers", b"two", NOW_MS + 4, [("a", b"1"), ("a", b"2")]),
    Sent(b"null header", b"one", NOW_MS + 5, [("n", None), ("e", b"")]),
    Sent("schlüssel".encode(), "größe 水".encode(), NOW_MS + 6, [("ключ", b"\x00\xff")]),
    *(Sent(f"k{i}".encode(), b"squeezes well " * 50, NOW_MS + 10 + i) for i in range(100)),
]
