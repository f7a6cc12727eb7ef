"""Which records a page asked for, and what a registry's schemas make of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from penstock.client.values import ConsumedRecord
from penstock.console.apart.frames import Raw
from penstock.console.apart.schema import KnownSchema
from penstock.console.query import Query, needed, number, one_of, text
from penstock.console.reader import LARGEST, ApartReader
from penstock.console.schemas import SchemaRegistry, number_of
from penstock.protocol.value import Value

PIECE_BYTES: Final = 1024 * 1024
"""A large value is looked through in pieces, of which each is copied."""
PART, WHOLE, ANYWHERE = "part", "whole", "anywhere"


class Wanted(Value):
    """What a query asks for. `place` is latest, earliest, offset or time, `at` the offset or the milliseconds.

    `where` is an expression of JMESPath, or empty. `match` says whether `key` is a part of a record's key, or the whole
    of it: in the partition where Java's clients put that key, or anywhere.
    """

    topic: str
    partition: int | None
    place: str
    at: int
    limit: int
    key: bytes
    words: bytes
    where: str
    committed: bool
    match: str = PART

    @property
    def reckons(self) -> bool:
        """Whether the partition is to be reckoned of the key."""
        return self.match == WHOLE and self.partition is None

    @property
    def is_search(self) -> bool:
        return bool(self.key or self.words or self.where)

    def has_words(self, record: ConsumedRecord) -> bool:
        """`key` is a part of the key, `words` of the key, the value or a header, in any case of letters."""
        if self.match != PART and record.key != self.key:
            return False
        if self.match == PART and self.key and not _has(record.key or b"", self.key):
            return False
        if not self.words:
            return True
        parts = [record.key, record.value]
        parts += [part for name, value in record.headers for part in (name.encode(), value)]
        return any(part is not None and _has(part, self.words) for part in parts)


def _has(data: bytes, words: bytes) -> bool:
    """In any case of letters; `words` are in small ones."""
    overlap = len(words) - 1
    pieces = (data[at : at + PIECE_BYTES + overlap] for at in range(0, max(len(data), 1), PIECE_BYTES))
    return any(words in bytes(piece).lower() for piece in pieces)


def wanted(query: Query, most: int) -> Wanted:
    key = text(query, "key")
    match = one_of(query, "match", PART, WHOLE, ANYWHERE) if key else PART
    return Wanted(
        topic=needed(query, "topic"),
        partition=number(query, "partition", 0, 2**31 - 1) if text(query, "partition") else None,
        place=one_of(query, "place", "latest", "earliest", "offset", "time"),
        at=number(query, "at", 0),
        limit=number(query, "limit", 50, most),
        key=(key.lower() if match == PART else key).encode(),
        words=text(query, "q").lower().encode(),
        where=text(query, "where").strip(),
        committed=bool(number(query, "committed", 0)),
        match=match,
    )


class Found(Value):
    """A record that matches. `key` and `value` are what a schema made of them, as a page takes it.

    `problem`: why one of them is shown as its bytes are although it names a schema.
    """

    record: ConsumedRecord
    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None
    problem: str | None = None


class Matching:
    """`async with` it. `most` is how many characters of a decoded text are wanted."""

    def __init__(self, want: Wanted, schemas: SchemaRegistry, most: int) -> None:
        self._want = want
        self._schemas = schemas
        self._most = most
        self._reader = ApartReader(want.where)
        self.is_committed = want.committed
        self.passed_over = 0
        """How many records the expression could not be asked of,"""
        self.why = ""
        """and why one of them."""

    async def __aenter__(self) -> "Matching":
        try:
            await self._reader.check()
        except BaseException:
            await self._reader.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.__aexit__()

    async def of(self, records: Sequence[ConsumedRecord]) -> list[Found]:
        """Those that match. ConsoleError where looking at them takes too much."""
        found = [one for one in records if self._want.has_words(one)]
        schemas = await self._schemas.of_values([data for one in found for data in (one.key, one.value)])
        if not found or not (schemas or self._want.where):
            return [Found(one) for one in found]
        for schema in schemas.values():
            self._reader.learn(schema)
        answers = await self._reader.look([_raw(one, schemas) for one in found], self._most)
        matching = []
        for record, answer in zip(found, answers, strict=True):
            if answer.get("matches") is True:
                matching.append(_found(record, answer, schemas))
            elif problem := answer.get("unfit") or answer.get("problem"):
                self.passed_over += 1
                self.why = str(problem)
        return matching


def _raw(record: ConsumedRecord, schemas: Collection[int]) -> Raw:
    key, value = (number_of(data) for data in (record.key, record.value))
    return Raw(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        _sent(record.key),
        _sent(record.value),
        [(name, _sent(value)) for name, value in record.headers],
        (key if key in schemas else None, value if value in schemas else None),
    )


def _sent(data: bytes | None) -> bytes | None:
    """What may be a view is copied, unless it is too large to be looked into."""
    return data if data is None or len(data) > LARGEST else bytes(data)


def _found(record: ConsumedRecord, answer: Mapping[str, Any], schemas: Mapping[int, KnownSchema]) -> Found:
    problem = answer.get("problem")
    return Found(
        record=record,
        key=_decoded(answer.get("key"), record.key, schemas),
        value=_decoded(answer.get("value"), record.value, schemas),
        problem=None if problem is None else str(problem),
    )


def _decoded(part: Any, data: bytes | None, schemas: Mapping[int, KnownSchema]) -> Mapping[str, Any] | None:
    """As the page takes it. What comes back was made of strangers' bytes: each field is taken as what it has to be."""
    number = number_of(data)
    schema = None if number is None else schemas.get(number)
    if not isinstance(part, dict) or schema is None:
        return None
    return {
        "kind": "json",
        "text": str(part.get("text", "")),
        "size": len(data or b""),
        "cut": bool(part.get("cut")),
        "schema": str(schema.number),
        "schema_kind": schema.kind,
    }
