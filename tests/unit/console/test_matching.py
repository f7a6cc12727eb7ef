"""Which records match, what a schema made of them, and what the process apart is asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import pytest

from penstock.client.values import ConsumedRecord
from penstock.console import matching
from penstock.console.apart.frames import Raw
from penstock.console.apart.schema import AVRO, PROTOBUF, KnownSchema
from penstock.console.errors import ConsoleError
from penstock.console.matching import Found, Matching, Wanted, wanted
from penstock.console.schemas import SchemaRegistry, number_of

EVERY = Wanted("t", None, "latest", 0, 50, b"", b"", "", False)


def record(key: bytes | None, value: bytes | None, headers: Any = ()) -> ConsumedRecord:
    return ConsumedRecord("t", 3, 5, 9, key, value, list(headers))


@pytest.mark.parametrize(
    ("query", "changed"),
    [
        ({}, {}),
        ({"partition": "0"}, {"partition": 0}),
        ({"partition": str(2**31 - 1)}, {"partition": 2**31 - 1}),
        ({"place": "earliest"}, {"place": "earliest"}),
        ({"place": "time", "at": str(2**63 - 1)}, {"place": "time", "at": 2**63 - 1}),
        ({"limit": "0"}, {"limit": 0}),
        ({"limit": "90"}, {"limit": 90}),
        ({"key": "Ä"}, {"key": "ä".encode()}),
        ({"key": "Ä", "match": "part"}, {"key": "ä".encode()}),
        ({"key": "Ä", "match": "whole"}, {"key": "Ä".encode(), "match": "whole"}),
        ({"key": "Ä", "match": "anywhere"}, {"key": "Ä".encode(), "match": "anywhere"}),
        ({"match": "whole"}, {}),
        ({"q": "Ä B"}, {"words": "ä b".encode()}),
        ({"where": " a == b "}, {"where": "a == b"}),
        ({"committed": "1"}, {"committed": True}),
        ({"committed": "0"}, {}),
    ],
)
def test_what_a_query_wants(query: dict[str, str], changed: dict[str, Any]) -> None:
    assert wanted({"topic": "t", **query}, 90) == EVERY.replace(**changed)


@pytest.mark.parametrize(
    "query",
    [
        {"topic": ""},
        {"partition": str(2**31)},
        {"partition": "-1"},
        {"place": "x"},
        {"at": str(2**63)},
        {"limit": "91"},
        {"key": "a", "match": "x"},
        {"committed": "x"},
    ],
)
def test_what_no_query_may_want(query: dict[str, str]) -> None:
    with pytest.raises(ConsoleError) as refused:
        wanted({"topic": "t", **query}, 90)
    assert refused.value.status == 400


def test_which_query_is_a_search_and_which_reckons_its_partition() -> None:
    searches = {"key": b"k", "words": b"w", "where": "w"}
    assert [EVERY.replace(**{name: it}).is_search for name, it in searches.items()] == [True] * 3
    assert not EVERY.is_search
    whole = EVERY.replace(key=b"k", match="whole")
    assert whole.reckons
    assert not whole.replace(partition=0).reckons
    assert [EVERY.replace(match=one).reckons for one in ("part", "anywhere")] == [False] * 2


@pytest.mark.parametrize(
    ("match", "key", "words", "matched"),
    [
        ("part", b"", b"", "abcdef"),
        ("part", b"k", b"", "ab"),
        ("part", b"k1", b"", "b"),
        ("whole", b"K1", b"", "b"),
        ("anywhere", b"K1", b"", "b"),
        ("whole", b"k1", b"", ""),
        ("whole", b"", b"", "d"),
        ("part", b"", b"val", "ab"),
        ("part", b"", b"k1", "b"),
        ("part", b"", b"name", "ef"),
        ("part", b"", b"said", "e"),
        ("part", b"k", b"value2", "b"),
        ("whole", b"K1", b"value1", ""),
    ],
)
def test_words_and_keys(match: str, key: bytes, words: bytes, matched: str) -> None:
    records = {
        "a": record(b"xK0", b"VALUE1"),
        "b": record(b"K1", b"value2"),
        "c": record(None, None),
        "d": record(b"", b""),
        "e": record(None, None, [("Name", b"Said")]),
        "f": record(None, None, [("name", None)]),
    }
    want = EVERY.replace(match=match, key=key, words=words)
    assert "".join(name for name, one in records.items() if want.has_words(one)) == matched


class Schemas:
    """Has schemas 7 and 8, and notes of which values it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[bytes | None]] = []

    async def of_values(self, values: Sequence[bytes | None]) -> dict[int, KnownSchema]:
        self.asked.append(list(values))
        known = {7: KnownSchema(7, AVRO, b"7"), 8: KnownSchema(8, PROTOBUF, b"8")}
        return {number: known[number] for data in values if (number := number_of(data)) in known}


class Reader:
    """Answers as it is told, and notes what it was asked."""

    answers: Sequence[dict[str, Any]] = ()
    fails = False

    def __init__(self, where: str) -> None:
        self.where, self.ended = where, 0
        self.learned: list[int] = []
        self.looked: list[tuple[Raw, ...]] = []
        self.most: list[int] = []

    async def check(self) -> None:
        if self.fails:
            raise ConsoleError(HTTPStatus.BAD_REQUEST, "it cannot be read")

    async def __aexit__(self, *_: object) -> None:
        self.ended += 1

    def learn(self, schema: KnownSchema) -> None:
        self.learned.append(schema.number)

    async def look(self, records: Sequence[Raw], most: int) -> list[dict[str, Any]]:
        self.looked.append(tuple(records))
        self.most.append(most)
        return list(self.answers)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> type[Reader]:
    made = type("Made", (Reader,), {})
    monkeypatch.setattr(matching, "ApartReader", made)
    return made


def matcher(want: Wanted, schemas: Schemas) -> tuple[Matching, Reader]:
    found = Matching(want, cast("SchemaRegistry", schemas), 17)
    return found, cast("Reader", found._reader)


async def test_where_no_schema_and_no_expression_is_nobody_apart_is_asked(reader: type[Reader]) -> None:
    schemas = Schemas()
    found, apart = matcher(EVERY.replace(words=b"a"), schemas)
    records = [record(b"a", None), record(b"b", None), record(None, b"A")]
    async with found:
        assert await found.of(records) == [Found(records[0]), Found(records[2])]
    assert schemas.asked == [[b"a", None, None, b"A"]]
    assert (apart.looked, apart.ended, found.is_committed) == ([], 1, False)


async def test_what_a_schema_decodes_is_looked_at_apart(reader: type[Reader]) -> None:
    reader.answers = [
        {"matches": True, "key": {"text": "K", "cut": True}, "value": {"text": 5}, "problem": 9},
        {"matches": True, "key": {"text": "K"}, "value": "V"},
        {"matches": True, "key": None, "value": {}},
    ]
    found, apart = matcher(EVERY.replace(committed=True), Schemas())
    seven, eight, nine = (b"\0\0\0\0" + bytes([number]) + b"data" for number in (7, 8, 9))
    records = [record(seven, eight, [("h", b"x"), ("i", None)]), record(b"k", seven), record(nine, memoryview(eight))]  # type: ignore[arg-type]
    async with found:
        one, two, three = await found.of(records)
    (looked,) = apart.looked
    assert apart.learned == [7, 8]
    assert apart.most == [17]
    assert looked == (
        Raw("t", 3, 5, 9, seven, eight, [("h", b"x"), ("i", None)], (7, 8)),
        Raw("t", 3, 5, 9, b"k", seven, [], (None, 7)),
        Raw("t", 3, 5, 9, nine, eight, [], (None, 8)),
    )
    assert [type(raw.value) for raw in looked] == [bytes] * 3
    key = {"kind": "json", "text": "K", "size": 9, "cut": True, "schema": "7", "schema_kind": AVRO}
    value = {"kind": "json", "text": "5", "size": 9, "cut": False, "schema": "8", "schema_kind": PROTOBUF}
    assert one == Found(records[0], key, value, "9")
    assert two == Found(records[1]), "its key names no schema, its value came back as none"
    assert three == Found(records[2], None, {**value, "text": ""})
    assert found.is_committed


async def test_an_expression_is_asked_of_what_has_no_schema_too(reader: type[Reader]) -> None:
    reader.answers = [
        {"matches": True},
        {"matches": False},
        {"matches": 1},
        {"matches": False, "unfit": "no number"},
        {"problem": "too large"},
        {"matches": True, "problem": "damaged"},
    ]
    found, apart = matcher(EVERY.replace(where="key"), Schemas())
    assert apart.where == "key"
    records = [record(b"%d" % number, None) for number in range(6)]
    async with found:
        assert await found.of([]) == []
        assert apart.looked == []
        assert [one.record.key for one in await found.of(records)] == [b"0", b"5"]
    assert (found.passed_over, found.why) == (2, "too large")


async def test_an_expression_that_cannot_be_read_ends_its_process(reader: type[Reader]) -> None:
    reader.fails = True
    found, apart = matcher(EVERY.replace(where="key"), Schemas())
    with pytest.raises(ConsoleError, match="cannot be read"):
        async with found:
            raise AssertionError("it begins")
    assert apart.ended == 1


def test_what_is_too_large_to_be_looked_into_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "LARGEST", 3)
    for size, kind in ((3, bytes), (4, memoryview)):
        assert type(matching._sent(memoryview(bytes(size)))) is kind  # type: ignore[arg-type]
    assert matching._sent(None) is None


def test_words_are_looked_for_in_pieces_that_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "PIECE_BYTES", 3)
    for size in range(9):
        data = b"abcdefgh"[:size].upper()
        for begin in range(9):
            for end in range(begin + 1, 9):
                assert matching._has(data, b"abcdefgh"[begin:end]) == (end <= size)
    assert matching._has(b"", b"")
