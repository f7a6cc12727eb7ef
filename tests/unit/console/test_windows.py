"""How much of a list a page has, where reading begins, and what a form lets choose."""

from __future__ import annotations

import asyncio
import gc
import ssl
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.golden.console_cluster import ShownCluster

from penstock.client.admin.groups import GroupDescription, GroupListing
from penstock.client.errors import ConnectionFailedError
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.console import records
from penstock.console.imports import Read, read
from penstock.console.looks import Looks
from penstock.console.matching import Found, Wanted
from penstock.console.records import Records, as_row
from penstock.console.security_changes import CHOICES
from penstock.console.serving import reading
from penstock.console.serving.lines import line
from penstock.console.serving.reading import _broken_where_it_fails, _file
from penstock.console.serving.settings import ConsoleSettings, NotServedError
from penstock.console.serving.tls import tls_of
from penstock.console.views import groups, registry, topics
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import ZERO_UUID
from penstock.tls.authority import new_authority

MANY = 120


def topic(name: str, count: int = 1) -> TopicMetadata:
    rows = {n: PartitionMetadata(name, n, 1, 0, [1], [1], [], ErrorCode.NONE) for n in range(count)}
    return TopicMetadata(name, ZERO_UUID, False, ErrorCode.NONE, rows)


class Many(ShownCluster):
    """Has a hundred and twenty of all."""

    async def _first(self, _: int) -> tuple[list[TopicMetadata], bool]:
        return [topic(f"{n:03}") for n in range(MANY)], True

    async def _described(self, names: Any) -> list[TopicMetadata]:
        return [topic(name, MANY) for name in names]

    async def _group(self, name: str) -> GroupDescription:
        return GroupDescription(name, "Empty", "consumer", "", 1, [])

    async def _offsets(self, name: str) -> Any:
        return {TopicPartition("t", n): SimpleNamespace(offset=0) for n in range(MANY)}


async def test_a_window_has_a_hundred_rows_unless_another_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Many().watched
    listings = [GroupListing(f"{n:03}", "consumer", "Empty", "classic") for n in range(MANY)]

    async def listed() -> list[GroupListing]:
        return listings

    monkeypatch.setattr(many.admin.groups, "listings", listed)
    subjects: Any = SimpleNamespace(shown="http://h")

    async def names() -> list[str]:
        return [str(n) for n in range(MANY)]

    subjects.subjects = names
    for limit, count in ((None, 100), ("101", 101), ("0", 0)):
        query = {} if limit is None else {"limit": limit}
        found = [
            (await topics.topics(many, query))["topics"],
            (await topics.topic(many, {"name": "t", **query}))["partitions"],
            (await groups.groups(many, query))["groups"],
            (await groups.group(many, {"name": "g", **query}))["offsets"],
            (await registry.subjects(subjects, query))["subjects"],
        ]
        assert list(map(len, found)) == [count] * 5


WIDE = [TopicPartition("t", n) for n in range(25)]
P0, P1, *_ = WIDE


@pytest.mark.parametrize(
    ("wanted", "ends", "starts"),
    [
        ({}, {P0: 100, P1: 8}, {P0: 94, P1: 5}),
        ({"limit": 2}, {P0: 100, P1: 8}, {P0: 98, P1: 6}),
        ({"limit": 1}, {P0: 100}, {P0: 99}),
        ({}, {P0: 100}, {P0: 88}),
        ({}, {}, {}),
        ({}, dict.fromkeys(WIDE, 100), dict.fromkeys(WIDE, 98)),
        ({"words": b"w"}, {P0: 100, P1: 8}, {P0: 90, P1: 5}),
        ({"words": b"w", "limit": 1}, {P0: 100}, {P0: 80}),
        (
            {"words": b"w"},
            {TopicPartition("t", n): 100 for n in range(25)},
            {TopicPartition("t", n): 99 for n in range(25)},
        ),
        ({"words": b"w"}, {}, {}),
        ({"place": "earliest"}, {P0: 100, P1: 8}, {P0: 3, P1: 5}),
        ({"place": "offset", "at": 6}, {P0: 100, P1: 8}, {P0: 6, P1: 6}),
        ({"place": "offset", "at": 0}, {P0: 100, P1: 8}, {P0: 3, P1: 5}),
        ({"place": "time", "at": 7}, {P0: 100, P1: 8}, {P0: 0, P1: 8}),
    ],
    ids=range(14),
)
async def test_where_reading_begins(
    monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any], ends: dict[Any, int], starts: dict[Any, int]
) -> None:
    monkeypatch.setattr(records, "MOST_READ", 20)
    monkeypatch.setattr(records, "LAST_READ", 12)
    reader = Records(cast("Any", None), {}, cast("Any", None))

    async def offsets(_: Any, at: int) -> dict[TopicPartition, int]:
        return {P0: 0, P1: -1} if at == 7 else {}

    monkeypatch.setattr(reader, "_offsets", offsets)
    begins = {one: 5 if one == P1 else 3 for one in ends}
    want = Wanted("t", None, "latest", 0, 50, b"", b"", "", False).replace(**wanted)
    assert await reader._starts(want, begins, ends) == starts


def test_a_row_has_what_schemas_made_and_headers_up_to_a_limit() -> None:
    headers = [("n" * 257, b"v" * 257), ("m" * 256, None), *[("h", b"x")] * 30]
    record = ConsumedRecord("t", 1, 2**62, 9, b"k", b"v", headers)
    row = as_row(Found(record, {"kind": "json"}, None, "damaged"))
    assert (row["key"], row["value"]["text"], row["problem"]) == ({"kind": "json"}, "v", "damaged")
    assert as_row(Found(record, None, {"kind": "json"}))["value"] == {"kind": "json"}
    assert (row["partition"], row["offset"], row["timestamp"]) == (1, str(2**62), "9")
    assert (len(row["headers"]), row["headers_total"]) == (30, 32)
    (name, value, is_cut), (other, _, is_whole), *_ = row["headers"]
    assert (name, value["text"], value["cut"], is_cut) == ("n" * 256, "v" * 256, True, True)
    assert (other, is_whole) == ("m" * 256, False)


def test_choices_of_forms() -> None:
    assert CHOICES["mechanism"] == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert CHOICES["pattern"] == ["LITERAL", "PREFIXED"]
    assert CHOICES["permission"] == ["ALLOW", "DENY"]
    assert (CHOICES["operation"][0], len(CHOICES["operation"])) == ("ALL", 14)
    assert CHOICES["resource"] == ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"base64": "AAE="}', b"\0\x01"),
        ('{"base64": "AAE=", "x": 1}', b'{"base64": "AAE=", "x": 1}'),
        ('{"base64": 5}', b'{"base64": 5}'),
        ('{"x": "AAE="}', b'{"x": "AAE="}'),
        ("null", None),
        ('"null"', b"null"),
        ("7", b"7"),
    ],
)
def test_values_of_a_file(text: str, value: bytes | None) -> None:
    asked = {"text": f'{{"value": {text}}}', "kind": "jsonl", "shape": "records"}
    assert read(asked) == ([Read(1, None, value, [])], [])


@pytest.mark.parametrize("error", [ConnectionFailedError("away"), ConnectionError("reset")])
def test_an_answer_that_has_begun_is_broken_off(error: Exception) -> None:
    aborted: list[int] = []
    transport = SimpleNamespace(abort=lambda: aborted.append(1))
    for request, count in ((SimpleNamespace(transport=transport), 1), (SimpleNamespace(transport=None), 1)):
        with pytest.raises(ConnectionResetError, match=str(error)), _broken_where_it_fails(cast("Any", request)):
            raise error
        assert len(aborted) == count


async def test_lines_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    async def write(_: Any, data: bytes) -> None:
        written.append(data)

    monkeypatch.setattr(reading, "PART_BYTES", 100)
    monkeypatch.setattr(reading, "write", write)
    found = [Found(ConsumedRecord("t", 0, n, 0, None, b"v" * 60)) for n in range(5)]
    await reading._write_lines(cast("Any", None), found)
    assert b"".join(written) == b"".join(piece for one in found for piece in line(one))
    assert all(100 <= len(part) < 200 for part in written[:-1])
    assert len(written) > 4
    written.clear()
    await reading._write_lines(cast("Any", None), [])
    assert written == []


def test_names_of_files_are_plain() -> None:
    assert _file("aZ9._-é /", "a/b") == {
        "Content-Type": "a/b",
        "Content-Disposition": 'attachment; filename="aZ9._-___"',
    }


def test_what_tls_is_spoken(tmp_path: Path) -> None:
    made = new_authority("console", datetime(2020, 1, 1, tzinfo=UTC), 36500)
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_text(made.certificate)
    key.write_text(made.key)
    settings = ConsoleSettings(bootstrap_servers="h:1", client=ClientSettings(), certificate=certificate, key=key)
    for mode in (0o604, 0o602, 0o601):
        key.chmod(mode)
        with pytest.raises(NotServedError, match="everybody on this machine may read it: chmod o= "):
            tls_of(settings)
    for mode in (0o600, 0o640):
        key.chmod(mode)
        context = tls_of(settings)
        assert context is not None
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        for option in (ssl.OP_NO_RENEGOTIATION, ssl.OP_NO_COMPRESSION):
            assert context.options & option
    assert settings.is_tls
    for part in ("certificate", "key"):
        assert tls_of(settings.replace(**{part: None})) is None
    assert not settings.replace(certificate=None).is_tls


async def test_a_failure_that_comes_when_nobody_waits_any_more_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    looks, let = Looks(lambda: 0.0, lambda: 0.0), asyncio.Event()

    async def fails() -> int:
        await let.wait()
        raise ValueError

    assert await looks.soon("a", fails) is None
    let.set()
    for _ in range(5):
        await asyncio.sleep(0)
    del looks
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def test_a_failure_that_nobody_waits_for_is_no_news() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    looks, let = Looks(lambda: 0.0, lambda: 0.0), asyncio.Event()

    async def fails() -> None:
        raise ValueError

    async def hangs() -> None:
        await let.wait()

    found = await looks.soon("a", fails)  # type: ignore[func-returns-value]
    assert found is None
    waiting = asyncio.create_task(looks.soon("b", hangs))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await looks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
