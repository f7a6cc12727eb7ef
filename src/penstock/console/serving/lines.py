"""Records as lines of JSON, in pieces: a large value is never there a second time as a whole."""

import base64
import codecs
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.console.matching import Found

PIECE_BYTES: Final = 3 * 64 * 1024
"""Of a value; three bytes are four characters of base64."""


def line(found: Found) -> Iterator[bytes]:
    """What is no text is in base64."""
    record = found.record
    where = {"partition": record.partition, "offset": str(record.offset), "timestamp": str(record.timestamp_ms)}
    yield json.dumps(where).removesuffix("}").encode() + b', "key": '
    yield from _part(found.key, record.key)
    yield b', "value": '
    yield from _part(found.value, record.value)
    yield b', "headers": ['
    for place, (name, value) in enumerate(record.headers):
        yield b"%s[%s, " % (b", " if place else b"", json.dumps(name).encode())
        yield from _exported(value)
        yield b"]"
    yield b"]}\n"


def _part(decoded: Mapping[str, Any] | None, data: bytes | None) -> Iterator[bytes]:
    """By its schema, if that was not too long."""
    return _exported(data) if decoded is None or decoded["cut"] else iter([json.dumps(str(decoded["text"])).encode()])


def _exported(data: bytes | None) -> Iterator[bytes]:
    if data is None:
        yield b"null"
    elif _is_text(data):
        decoder = codecs.getincrementaldecoder("utf-8")()
        yield b'"'
        yield from (json.dumps(decoder.decode(piece))[1:-1].encode() for piece in _pieces(data))
        yield b'"'
    else:
        yield b'{"base64": "'
        yield from map(base64.b64encode, _pieces(data))
        yield b'"}'


def _is_text(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(data):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _pieces(data: bytes) -> Iterator[bytes]:
    return (bytes(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES))
